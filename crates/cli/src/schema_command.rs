//! `rtwire schema`: the JSON Schemas of the formats that rtwire reads and writes.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

/// The format.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The network description.
    Network,
    /// A plan, as `rtwire plan --output` writes it and `--json` prints it.
    Plan,
    /// The output of `rtwire verify --json`.
    Verify,
    /// The output of `rtwire simulate --json`.
    Simulation,
    /// The report of `rtwire lab` (`--report`, `--json`).
    Report,
    /// The output of `rtwire jitter --json`.
    Jitter,
    /// A line of `rtwire sniff --json`.
    Sniff,
    /// The output of `rtwire run --json`.
    Run,
    /// The output of `rtwire powerlink mn --json` and `cn --json`.
    Powerlink,
    /// The output of `rtwire powerlink check --json`.
    PowerlinkCheck,
    /// The output of `rtwire publish --json`.
    Publish,
    /// The output of `rtwire subscribe --json`.
    Subscribe,
    /// The table that a benchmark writes.
    Bench,
    /// The output of `rtwire doctor --json`.
    Doctor,
    /// The output of `rtwire clock --json`.
    Clock,
    /// The output of `rtwire apply --json`.
    Apply,
    /// The output of `--json` of `rtwire reserve`, `release`, `connections` and `explain`.
    Connections,
    /// The file of `rtwire agent --status`.
    AgentStatus,
    /// The file of `rtwire manager --status`.
    ManagerStatus,
}

/// Arguments of `rtwire schema`.
#[derive(Args)]
pub(crate) struct SchemaArguments {
    /// The format
    #[arg(value_enum, default_value = "network")]
    format: Format,
}

/// Prints the schema.
pub(crate) fn run(arguments: &SchemaArguments) -> ExitCode {
    let schema = match arguments.format {
        Format::Network => rtwire_plan::json_schema(),
        Format::Plan => rtwire_plan::schema::plan_schema(),
        Format::Verify => crate::verify_command::json_schema(),
        Format::Simulation => rtwire_sim::report_schema().to_value(),
        Format::Report => rtwire_measure::report::json_schema(),
        Format::Jitter => rtwire_measure::jitter::json_schema(),
        Format::Sniff => crate::sniff_command::json_schema(),
        Format::Run => rtwire_session::run::json_schema(),
        Format::Powerlink => rtwire_powerlink_station::json_schema().to_value(),
        Format::PowerlinkCheck => crate::powerlink_check::json_schema(),
        Format::Publish => rtwire_pubsub_station::publish_schema().to_value(),
        Format::Subscribe => rtwire_pubsub_station::subscribe_schema().to_value(),
        Format::Bench => rtwire_measure::bench::json_schema(),
        Format::Clock => rtwire_host::clock::json_schema(),
        Format::Apply => rtwire_host::apply::json_schema(),
        Format::Connections => crate::connection_text::json_schema(),
        Format::AgentStatus => rtwire_agentd::status_schema(),
        Format::ManagerStatus => rtwire_managerd::status_schema(),
        Format::Doctor => rtwire_host::doctor::json_schema(),
    };
    crate::output::line(&format!("{schema:#}"));
    ExitCode::SUCCESS
}
