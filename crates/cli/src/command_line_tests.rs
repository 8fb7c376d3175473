//! The command line as it is defined here, held against `tests/output/command-line.txt`, by which `tests/output.rs` checks
//! all that is written: each verb, and each option that takes a path.

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::CommandFactory as _;

const LIST: &str = include_str!("../../../tests/output/command-line.txt");

fn list(command: &clap::Command, place: &str, text: &mut String) {
    let runs = !command.is_subcommand_required_set() && !command.is_arg_required_else_help_set();
    if runs && !place.is_empty() {
        let _ = writeln!(text, "verb {place}");
        for argument in command.get_arguments() {
            if argument.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
                let name = argument.get_id();
                let name = argument
                    .get_long()
                    .map_or_else(|| format!("<{name}>"), |long| format!("--{long}"));
                let _ = writeln!(text, "path {place} {name}");
            }
        }
    }
    for one in command.get_subcommands() {
        if !one.is_hide_set() && one.get_name() != "help" {
            list(one, format!("{place} {}", one.get_name()).trim(), text);
        }
    }
}

#[test]
fn the_list_of_all_that_prints_and_of_all_paths_is_whole() {
    let mut text = String::new();
    list(&super::Arguments::command(), "", &mut text);
    assert!(
        text == LIST,
        "tests/output/command-line.txt is to be this, and tests/output.rs needs a case for what is new:\n{text}"
    );
}
