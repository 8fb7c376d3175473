//! The `rtwire` command: arguments in, the crates' work, tables and exit codes out.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done, promises kept |
//! | 1 | a promise broken, or a plan refused |
//! | 2 | wrong usage or a faulty file |
//! | 3 | something is missing on the host |
//! | 4 | inconclusive |
//!
//! Output that cannot be written turns 0 into 2. A reader of standard output that went away (`| head -1`) changes no code.

#![deny(clippy::print_stdout, reason = "`output` checks every write")]
#![deny(clippy::print_stderr, reason = "`output` has macros that do not panic")]

// First: its macros are for all of them.
#[macro_use]
mod output;

mod agent_command;
mod apply_command;
mod arguments;
mod attach_command;
mod certificate;
mod channel_command;
mod channel_packets;
mod clock_command;
mod columns;
mod common_time;
mod confirm_command;
mod connection_text;
mod deploy_command;
mod doctor_command;
mod doctor_measure;
mod doctor_table;
mod export_command;
mod import_command;
mod input;
mod interrupted;
mod jitter_command;
mod judge_command;
mod lab_command;
mod live_frames;
mod manager_command;
mod metrics_command;
mod metrics_text;
mod ping_account;
mod ping_command;
mod ping_report;
mod ping_stalls;
mod plan_command;
mod plan_cyclic;
mod plan_meters;
mod plan_recovery;
mod plan_schedule;
mod plan_synthesis;
mod plan_text;
mod powerlink_check;
mod powerlink_command;
mod publish_command;
mod pubsub_command;
mod reserve_command;
mod respond_command;
mod revert_command;
mod run_command;
mod run_text;
mod schema_command;
mod simulate_command;
mod sniff_command;
mod subscribe_command;
mod switch_command;
mod top_command;
mod uman_command;
mod verify_command;
mod watched;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Deterministic Ethernet from ordinary Linux machines: plan it, run it, prove it.
#[derive(Parser)]
#[command(
    name = "rtwire",
    version,
    max_term_width = 100,
    propagate_version = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compute what a network guarantees: worst-case delays, buffers; or why it cannot
    Plan(plan_command::PlanArguments),
    /// Prove a plan again: every promise, gate list, launch and identity in it
    Verify(verify_command::VerifyArguments),
    /// Read a network of another planner and print it as a network description
    Import(import_command::ImportArguments),
    /// Play a network out frame by frame in virtual time and hold what is seen against the promise
    Simulate(simulate_command::SimulateArguments),
    /// Bring a network up on this machine, run its streams, and hold the measurement against the promise
    Lab(lab_command::LabArguments),
    /// Run one host's streams of a plan on an interface of this machine
    Run(run_command::RunArguments),
    /// Judge a real network: one verdict from the plan and the evidence of all its hosts
    Judge(judge_command::JudgeArguments),
    /// Answer questions on an interface from its driver, within microseconds
    Respond(respond_command::RespondArguments),
    /// Attach the receive program to an interface, and keep it there
    ///
    /// Some drivers take the link down when a program is attached or detached. Attached once, it is shared by listeners and
    /// responders, which then change nothing when they start and stop. The command ends when the link is back.
    Attach(attach_command::AttachArguments),
    /// Take back what `attach` has kept at an interface
    Detach(attach_command::DetachArguments),
    /// Ask a responder again and again, and account for every number and every round trip
    Ping(ping_command::PingArguments),
    /// Measure the jitter and the answers of a POWERLINK network, from a capture or live
    Jitter(jitter_command::JitterArguments),
    /// Show messages of OPC UA PubSub field by field, from a capture or live
    Sniff(sniff_command::SniffArguments),
    /// Run and examine POWERLINK networks: managing and controlled nodes, configurations
    Powerlink(powerlink_command::PowerlinkArguments),
    /// Publish the data sets of an OPC UA PubSub project, in cycles
    Publish(publish_command::PublishArguments),
    /// Receive the data sets of an OPC UA PubSub project, and account for every message
    Subscribe(subscribe_command::SubscribeArguments),
    /// Exchange OPC UA PubSub projects with other tools: the standard's binary configuration file
    Pubsub(pubsub_command::PubsubArguments),
    /// Bring this host's interface to its share of a plan: shown first, all or nothing, read back
    Apply(apply_command::ApplyArguments),
    /// Keep what `rtwire apply --confirm-within` changed
    Confirm(confirm_command::ConfirmArguments),
    /// Show whether this host shares the network's time, as ptp4l and the clocks say
    Clock(clock_command::ClockArguments),
    /// Find out whether this host can keep a deadline, and what would change it
    Doctor(doctor_command::DoctorArguments),
    /// Put back what `rtwire apply` and `rtwire doctor --fix` changed on this host
    Revert(revert_command::RevertArguments),
    /// Admit and release connections while the network runs, against the proven bounds of all of them
    Manager(manager_command::ManagerArguments),
    /// Be the trusted part of this host: limit what leaves it, hand channels to programs, ask for one-shot reservations
    Agent(agent_command::AgentArguments),
    /// Let whoever holds this host's key deploy a plan here, check it, and run it
    Door(deploy_command::DoorArguments),
    /// Bring a plan to all hosts of a network at once, or to none
    Deploy(deploy_command::DeployArguments),
    /// Name each difference between a plan and the hosts of its network
    Check(deploy_command::CheckArguments),
    /// Run the streams of all hosts, collect what they saw, and judge it
    Prove(deploy_command::ProveArguments),
    /// Serve the figures of managers and agents to Prometheus, from their status files
    Metrics(metrics_command::MetricsArguments),
    /// Watch links, reservations and answers in a terminal, from the status files of managers and agents
    Top(top_command::TopArguments),
    /// Send or hear on a connection by the agent of this host: no privilege is needed
    Channel(channel_command::ChannelArguments),
    /// Reserve a connection: ask the manager of the network for a shaper and a promise
    Reserve(reserve_command::ReserveArguments),
    /// Release a connection that this host has reserved
    Release(reserve_command::ReleaseArguments),
    /// List the connections that this host sends and hears
    Connections(reserve_command::ConnectionsArguments),
    /// Show the terms of a connection's promise
    Explain(reserve_command::ExplainArguments),
    /// Write each switch's share of a plan: IEEE 802.1Q YANG data, or a page for a person
    Export(export_command::ExportArguments),
    /// Bring a switch to its share of a plan over NETCONF, or name each difference
    Switch(switch_command::SwitchArguments),
    /// Make and show devices of the kernel module `uman`: a transmit and receive path of their own above a stock driver
    Uman(uman_command::UmanArguments),
    /// Print the JSON Schema of a format
    Schema(schema_command::SchemaArguments),
    /// Put the settings of an interface back unless they are confirmed (started by `rtwire apply`)
    #[command(hide = true)]
    HostGuardian(confirm_command::ConfirmArguments),
    /// Be one host of a lab (started by `rtwire lab`, talks JSON over standard input and output)
    #[command(hide = true)]
    LabWorker,
    /// Be a program of a host of a lab (started by `rtwire lab`)
    #[command(hide = true)]
    LabServe {
        /// The host's namespace
        namespace: String,
        /// The program with its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<String>,
    },
}

fn main() -> ExitCode {
    output::end(match Arguments::try_parse() {
        Ok(arguments) => run(arguments.command),
        // Help and version are output; all else is wrong usage.
        Err(shown) if !shown.use_stderr() => {
            output::note(shown.print().and_then(|()| io::stdout().flush()));
            ExitCode::SUCCESS
        }
        Err(fault) => {
            let _ = fault.print();
            ExitCode::from(2)
        }
    })
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Plan(arguments) => plan_command::run(&arguments),
        Command::Verify(arguments) => verify_command::run(&arguments),
        Command::Import(arguments) => import_command::run(&arguments),
        Command::Simulate(arguments) => simulate_command::run(&arguments),
        Command::Lab(arguments) => lab_command::run(arguments),
        Command::Run(arguments) => run_command::run(&arguments),
        Command::Judge(arguments) => judge_command::run(&arguments),
        Command::Respond(arguments) => respond_command::run(&arguments),
        Command::Attach(arguments) => attach_command::attach(&arguments),
        Command::Detach(arguments) => attach_command::detach(&arguments),
        Command::Ping(arguments) => ping_command::run(&arguments),
        Command::Jitter(arguments) => jitter_command::run(&arguments),
        Command::Sniff(arguments) => sniff_command::run(&arguments),
        Command::Powerlink(arguments) => powerlink_command::run(&arguments),
        Command::Publish(arguments) => publish_command::run(&arguments),
        Command::Subscribe(arguments) => subscribe_command::run(&arguments),
        Command::Pubsub(arguments) => pubsub_command::run(&arguments),
        Command::Apply(arguments) => apply_command::run(&arguments),
        Command::Confirm(arguments) => confirm_command::run(&arguments),
        Command::HostGuardian(arguments) => confirm_command::guard(&arguments),
        Command::Clock(arguments) => clock_command::run(&arguments),
        Command::Doctor(arguments) => doctor_command::run(&arguments),
        Command::Revert(arguments) => revert_command::run(&arguments),
        Command::Export(arguments) => export_command::run(&arguments),
        Command::Switch(arguments) => switch_command::run(&arguments),
        Command::Manager(arguments) => manager_command::run(&arguments),
        Command::Agent(arguments) => agent_command::run(&arguments),
        Command::Door(arguments) => deploy_command::open_door(&arguments),
        Command::Deploy(arguments) => deploy_command::deploy_plan(&arguments),
        Command::Check(arguments) => deploy_command::check(&arguments),
        Command::Prove(arguments) => deploy_command::prove(&arguments),
        Command::Metrics(arguments) => metrics_command::run(&arguments),
        Command::Top(arguments) => top_command::run(&arguments),
        Command::Channel(arguments) => channel_command::run(&arguments),
        Command::Reserve(arguments) => reserve_command::reserve(&arguments),
        Command::Release(arguments) => reserve_command::release(&arguments),
        Command::Connections(arguments) => reserve_command::connections(&arguments),
        Command::Explain(arguments) => reserve_command::explain(&arguments),
        Command::Uman(arguments) => uman_command::run(&arguments),
        Command::Schema(arguments) => schema_command::run(&arguments),
        Command::LabWorker => rtwire_lab::worker_main(),
        Command::LabServe { namespace, program } => rtwire_lab::serve_main(&namespace, &program),
    }
}

#[cfg(test)]
#[path = "command_line_tests.rs"]
mod command_line_tests;
