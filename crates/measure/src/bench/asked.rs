//! The command line that all benchmarks share, and the state of the code they ran on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// What a benchmark is asked for.
///
/// All of them know `--quick` (few rounds, for tests), `--only PART` and `--out FOLDER` (where `bench/AREA.json` is
/// written); `cargo bench` adds a `--bench` that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Few rounds: to see that it runs, not to measure.
    pub quick: bool,
    values: BTreeMap<String, String>,
    switches: BTreeSet<String>,
    command: String,
}

impl Asked {
    /// Reads this process's command line. `more` names options of this benchmark alone, each with a value, `switches` those
    /// without.
    ///
    /// What is not known ends the process with code 2 and a message that says what is.
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

    /// The value of an option, where it was given.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// Whether a switch was given.
    #[must_use]
    pub fn has(&self, switch: &str) -> bool {
        self.switches.contains(switch)
    }

    /// The value of an option that is a number greater than 0, where it was given.
    ///
    /// Anything else ends the process with code 2 and a message.
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

    /// Whether a part is wanted: all are, unless `--only` names one.
    #[must_use]
    pub fn wants(&self, part: &str) -> bool {
        self.value("--only").is_none_or(|only| only == part)
    }

    /// The folder that results go to: `--out`, else where cargo builds.
    #[must_use]
    pub fn out(&self) -> PathBuf {
        let built = || match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => PathBuf::from(target),
            None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        };
        self.value("--out").map_or_else(built, PathBuf::from)
    }

    /// The command line, as it was given.
    #[must_use]
    pub fn command(&self) -> String {
        self.command.clone()
    }
}

/// Ends a benchmark whose command line is wrong: the message, and code 2.
pub fn refuse(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(2)
}

/// The commit of the code here, `-dirty` with changes, `unknown` outside of a repository.
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
