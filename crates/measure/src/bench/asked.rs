//! The command line that all benchmarks share, and the commit of the code under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// The options of a benchmark.
///
/// All benchmarks know `--quick` (few rounds, for tests), `--only PART` and `--out FOLDER` (where `bench/AREA.json` is
/// written). `cargo bench` adds `--bench`, which is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// True for few rounds: enough to see that the benchmark runs, too few to measure.
    pub quick: bool,
    values: BTreeMap<String, String>,
    switches: BTreeSet<String>,
    command: String,
}

impl Asked {
    /// Reads this process's command line. `more` names this benchmark's own options with a value; `switches` names
    /// those without.
    ///
    /// An unknown argument ends the process with code 2 and a message that lists the known ones.
    #[must_use]
    pub fn from_command_line(more: &[&str], switches: &[&str]) -> Self {
        Self::parse(std::env::args().collect(), more, switches)
            .unwrap_or_else(|message| refuse(&message))
    }

    fn parse(arguments: Vec<String>, more: &[&str], switches: &[&str]) -> Result<Self, String> {
        let command = arguments.join(" ");
        let mut asked = Self {
            quick: false,
            values: BTreeMap::new(),
            switches: BTreeSet::new(),
            command,
        };
        let mut left = arguments.into_iter().skip(1);
        while let Some(argument) = left.next() {
            match argument.as_str() {
                "--bench" => {}
                "--quick" => asked.quick = true,
                known if switches.contains(&known) => {
                    asked.switches.insert(argument);
                }
                known if ["--only", "--out"].contains(&known) || more.contains(&known) => {
                    let value = left.next();
                    let value = value.ok_or_else(|| format!("`{argument}` needs a value"))?;
                    asked.values.insert(argument, value);
                }
                _ => {
                    let known = ["--quick", "--only PART", "--out FOLDER"].join(", ");
                    let own = more.iter().map(|name| format!(", {name} VALUE"));
                    let own = own.chain(switches.iter().map(|name| format!(", {name}")));
                    let own: String = own.collect();
                    return Err(format!(
                        "unknown argument `{argument}`; there are {known}{own}"
                    ));
                }
            }
        }
        Ok(asked)
    }

    /// Returns an option's value; `None` if the option is missing.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// Returns true if a switch is present.
    #[must_use]
    pub fn has(&self, switch: &str) -> bool {
        self.switches.contains(switch)
    }

    /// Returns an option's value as a number greater than 0; `None` if the option is missing.
    ///
    /// Any other value ends the process with code 2 and a message.
    #[must_use]
    pub fn number(&self, option: &str) -> Option<f64> {
        self.read_number(option)
            .unwrap_or_else(|message| refuse(&message))
    }

    fn read_number(&self, option: &str) -> Result<Option<f64>, String> {
        let read = |text: &str| {
            let number = text.parse::<f64>().ok();
            let number = number.filter(|number| number.is_finite() && *number > 0.0);
            number.ok_or_else(|| format!("`{option} {text}`: not a number greater than 0"))
        };
        self.value(option).map(read).transpose()
    }

    /// Returns true if a part is to be measured: every part, unless `--only` names one.
    #[must_use]
    pub fn wants(&self, part: &str) -> bool {
        self.value("--only").is_none_or(|only| only == part)
    }

    /// Returns the folder for results: `--out`, else cargo's target folder.
    #[must_use]
    pub fn out(&self) -> PathBuf {
        let built = || match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => PathBuf::from(target),
            None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        };
        self.value("--out").map_or_else(built, PathBuf::from)
    }

    /// Returns the command line as typed.
    #[must_use]
    pub fn command(&self) -> String {
        self.command.clone()
    }
}

/// Ends a benchmark whose command line is wrong, with a message and code 2.
pub fn refuse(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(2)
}

/// Returns the commit of the code here; ends with `-dirty` if files were changed; `unknown` outside a repository.
pub(super) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let dirty = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) if dirty => commit + "-dirty",
        Some(commit) => commit,
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn parse(line: &str, more: &[&str]) -> Result<Asked, String> {
        let arguments = line.split(' ').map(str::to_owned).collect();
        Asked::parse(arguments, more, &["--stalls"])
    }

    #[test]
    fn all_that_is_asked_is_understood_or_refused() {
        let asked = parse(
            "plan --bench --quick --only sizes --out /x --nodes 8",
            &["--nodes"],
        );
        let asked = asked.unwrap();
        assert!(asked.quick && asked.wants("sizes") && !asked.wants("others"));
        assert_eq!(asked.out(), PathBuf::from("/x"));
        assert_eq!(asked.value("--nodes"), Some("8"));
        assert!(asked.command().ends_with("--nodes 8") && !asked.has("--stalls"));
        assert_eq!(asked.read_number("--nodes"), Ok(Some(8.0)));
        assert_eq!(asked.read_number("--minutes"), Ok(None));
        assert!(asked.read_number("--only").unwrap_err().contains("sizes"));
        assert!(parse("plan --stalls", &[]).unwrap().has("--stalls"));

        assert!(parse("plan --bench", &[]).unwrap().wants("everything"));
        let typo = parse("plan --onyl sizes", &["--nodes"]).unwrap_err();
        assert!(
            typo.contains("`--onyl`") && typo.ends_with("--nodes VALUE, --stalls"),
            "{typo}"
        );
        assert_eq!(
            parse("plan --only", &[]).unwrap_err(),
            "`--only` needs a value"
        );
    }
}
