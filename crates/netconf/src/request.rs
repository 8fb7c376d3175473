//! Requests to a server (RFC 6241, sections 7 and 8).

use std::fmt::Write as _;

use crate::element::{Element, NETCONF};

/// A set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Running,
    Candidate,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Store::Running => "running",
            Store::Candidate => "candidate",
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Returns state, as far as the filter names it.
    Get {
        filter: Vec<Element>,
    },
    /// Returns settings, as far as the filter names them.
    GetConfig {
        from: Store,
        filter: Vec<Element>,
        all_values: bool,
    },
    /// Lets no other session change or commit the candidate.
    Lock,
    Unlock,
    /// Changes the candidate.
    Edit(Vec<Element>),
    /// Puts the candidate into force, until the time is over.
    CommitUntil {
        seconds: u32,
    },
    /// Puts the candidate into force, or confirms that it is.
    Commit,
    CancelCommit,
    Discard,
    /// Copies what is in force to what a restart begins with.
    KeepForRestart,
    Close,
}

/// The client's hello.
pub(crate) fn hello() -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<hello xmlns=\"{NETCONF}\"><capabilities>\
         <capability>urn:ietf:params:netconf:base:1.0</capability>\
         <capability>urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>"
    )
}

impl Request {
    /// Writes the request with its number.
    pub(crate) fn write(&self, id: u64) -> String {
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rpc message-id=\"{id}\" xmlns=\"{NETCONF}\">"
        );
        match self {
            Request::Get { filter } => {
                text.push_str("<get>");
                write_filter(&mut text, filter);
                text.push_str("</get>");
            }
            Request::GetConfig {
                from,
                filter,
                all_values,
            } => {
                let _ = write!(text, "<get-config><source><{}/></source>", from.name());
                write_filter(&mut text, filter);
                if *all_values {
                    text.push_str(
                        "<with-defaults xmlns=\"urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults\">report-all</with-defaults>",
                    );
                }
                text.push_str("</get-config>");
            }
            Request::Lock => text.push_str("<lock><target><candidate/></target></lock>"),
            Request::Unlock => text.push_str("<unlock><target><candidate/></target></unlock>"),
            Request::Edit(elements) => {
                text.push_str("<edit-config><target><candidate/></target><default-operation>merge</default-operation><config>");
                elements.iter().for_each(|one| one.write(&mut text));
                text.push_str("</config></edit-config>");
            }
            Request::CommitUntil { seconds } => {
                let _ = write!(
                    text,
                    "<commit><confirmed/><confirm-timeout>{seconds}</confirm-timeout></commit>"
                );
            }
            Request::Commit => text.push_str("<commit/>"),
            Request::CancelCommit => text.push_str("<cancel-commit/>"),
            Request::Discard => text.push_str("<discard-changes/>"),
            Request::KeepForRestart => text.push_str(
                "<copy-config><target><startup/></target><source><running/></source></copy-config>",
            ),
            Request::Close => text.push_str("<close-session/>"),
        }
        text.push_str("</rpc>");
        text
    }
}

fn write_filter(text: &mut String, filter: &[Element]) {
    text.push_str("<filter type=\"subtree\">");
    filter.iter().for_each(|one| one.write(text));
    text.push_str("</filter>");
}
