//! Replies of a server (RFC 6241, section 4).

use core::fmt;

use crate::element::{Element, NETCONF, below, parsed};
use crate::error::{NetconfError, visible};

/// An error that a server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcError {
    /// The kind, for instance `invalid-value`.
    pub tag: String,
    /// `true` for a warning: the request was carried out.
    pub is_warning: bool,
    /// The place in the data; empty if it is not named.
    pub path: String,
    /// The server's words; empty if it has none.
    pub message: String,
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tag)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if !self.path.is_empty() {
            write!(f, " (at {})", self.path)?;
        }
        Ok(())
    }
}

/// A message behind the hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of the request; `None` if the server names none.
    pub id: Option<String>,
    /// Errors and warnings.
    pub errors: Vec<RpcError>,
    /// The data that were asked for.
    pub data: Vec<Element>,
    /// `true` if the reply says that the request was carried out: `ok`, or data.
    pub is_done: bool,
}

impl Reply {
    /// Reads a message; `None` for one that is no reply, such as a notification.
    ///
    /// # Errors
    /// It is not XML, or nested too deeply.
    pub fn read(message: &[u8]) -> Result<Option<Self>, NetconfError> {
        parsed(message, |root| {
            let name = root.tag_name();
            if name.name() != "rpc-reply" || name.namespace() != Some(NETCONF) {
                return Ok(None);
            }
            let mut reply = Self {
                id: root.attribute("message-id").map(str::to_owned),
                errors: Vec::new(),
                data: Vec::new(),
                is_done: false,
            };
            for one in below(root)? {
                match one.name.as_str() {
                    "rpc-error" => reply.errors.push(error(&one)),
                    "ok" => reply.is_done = true,
                    "data" => {
                        reply.is_done = true;
                        reply.data.extend(one.children().iter().cloned());
                    }
                    _ => {}
                }
            }
            reply.is_done &= reply.errors.iter().all(|one| one.is_warning);
            Ok(Some(reply))
        })
    }
}

fn error(element: &Element) -> RpcError {
    let text = |name: &str| {
        let value = element.child(name).map_or("", Element::value);
        value.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    RpcError {
        tag: visible(&text("error-tag")),
        is_warning: text("error-severity") == "warning",
        path: visible(&text("error-path")),
        message: visible(&text("error-message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inside: &str) -> Reply {
        let text = format!("<rpc-reply message-id=\"7\" xmlns=\"{NETCONF}\">{inside}</rpc-reply>");
        Reply::read(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn errors_and_warnings_are_told_apart() {
        assert!(read("<ok/>").is_done);
        let warned = read(
            "<rpc-error><error-tag>x</error-tag><error-severity>warning</error-severity></rpc-error><ok/>",
        );
        assert!(warned.is_done && warned.errors[0].is_warning);
        let failed = read(
            "<rpc-error><error-tag>in-use</error-tag><error-severity>error</error-severity>\
             <error-path>/a/b</error-path><error-message xml:lang=\"en\">not\n now</error-message></rpc-error>",
        );
        assert!(!failed.is_done);
        assert_eq!(failed.errors[0].to_string(), "in-use: not now (at /a/b)");
        assert!(!read("").is_done);
        let data = read("<data><top xmlns=\"urn:a\"><x>1</x></top></data>");
        assert_eq!(data.data[0].child("x").unwrap().value(), "1");
        assert_eq!(data.id.as_deref(), Some("7"));
    }

    #[test]
    fn a_notification_is_no_reply() {
        let text = "<notification xmlns=\"urn:ietf:params:xml:ns:netconf:notification:1.0\"/>";
        assert_eq!(Reply::read(text.as_bytes()).unwrap(), None);
    }
}
