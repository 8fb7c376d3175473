//! Questions of another process to a station: one line of JSON each. Pure.

use rtwire_wire::powerlink::NmtCommandId;
use serde::Deserialize;
use std::time::Duration;

/// A question to a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Its state.
    Status,
    /// A command to a node.
    Nmt {
        /// The node's number.
        node: u8,
        /// The command.
        command: NmtCommandId,
    },
    /// An object of a node, to be read or written.
    Sdo {
        /// The node's number.
        node: u8,
        /// The object's index.
        index: u16,
        /// The object's sub-index.
        subindex: u8,
        /// The data to write; `None`: the object is read.
        data: Option<Vec<u8>>,
        /// The time for the answer.
        timeout: Duration,
    },
}

/// The line's form. A number that its field cannot hold is a fault: cut off, it would be another node or object.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
enum Line {
    Status,
    Nmt {
        node: u8,
        command: u8,
    },
    Sdo {
        node: u8,
        index: u16,
        subindex: u8,
        data: Option<String>,
        timeout_ms: u64,
    },
}

impl Question {
    /// Reads a question from its line.
    ///
    /// # Errors
    /// The reason, for whoever asks.
    pub fn parse(line: &str) -> Result<Self, String> {
        let not_understood = |error: serde_json::Error| format!("not understood: {error}");
        // A list of the values would be read as well, by their order.
        if !line.trim_start().starts_with('{') {
            return Err("not understood: a question is one JSON object".to_owned());
        }
        Ok(match serde_json::from_str(line).map_err(not_understood)? {
            Line::Status => Self::Status,
            Line::Nmt { node, command } => Self::Nmt {
                node,
                command: NmtCommandId(command),
            },
            Line::Sdo {
                node,
                index,
                subindex,
                data,
                timeout_ms,
            } => Self::Sdo {
                node,
                index,
                subindex,
                data: data.as_deref().map(octets).transpose()?,
                timeout: Duration::from_millis(timeout_ms.max(1)),
            },
        })
    }
}

fn octets(text: &str) -> Result<Vec<u8>, String> {
    let fault = "not understood: `data` is no even number of hexadecimal digits";
    unhex(text).ok_or_else(|| fault.to_owned())
}

/// Reads bytes from hexadecimal digits; white space between them is ignored. `None` for anything else.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits = text.chars().filter(|c| !c.is_whitespace()).map(digit);
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    (digits.len() % 2 == 0).then(|| {
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_reaches_no_other_node() {
        let nmt = |node: u32, command: u32| {
            Question::parse(&format!(
                r#"{{"ask": "nmt", "node": {node}, "command": {command}}}"#
            ))
        };
        let right = Question::Nmt {
            node: 1,
            command: NmtCommandId(0x21),
        };
        assert_eq!(nmt(1, 0x21), Ok(right));
        assert!(nmt(257, 0x21).is_err());
        assert!(nmt(1, 0x121).is_err());
        let sdo = |index: u32, subindex: u32| {
            Question::parse(&format!(
                r#"{{"ask": "sdo", "node": 1, "index": {index}, "subindex": {subindex}, "timeout_ms": 9}}"#
            ))
        };
        assert!(sdo(0x6000, 1).is_ok());
        assert!(sdo(0x1_6000, 1).is_err());
        assert!(sdo(0x6000, 0x101).is_err());
        assert!(Question::parse(r#"{"ask": "nmt", "node": 1}"#).is_err());
        assert!(Question::parse(r#"["nmt", 1, 33]"#).is_err());
    }

    #[test]
    fn data_that_is_no_data_is_not_taken_for_a_question_to_read() {
        let write = |data: &str| {
            Question::parse(&format!(
                r#"{{"ask": "sdo", "node": 1, "index": 1, "subindex": 0, "data": "{data}", "timeout_ms": 0}}"#
            ))
        };
        let right = |data: &[u8]| Question::Sdo {
            node: 1,
            index: 1,
            subindex: 0,
            data: Some(data.to_vec()),
            timeout: Duration::from_millis(1),
        };
        assert_eq!(write("00 fF"), Ok(right(&[0, 255])));
        assert_eq!(write(""), Ok(right(&[])));
        for wrong in ["0", "xy", "+1", "0x10", "٠١"] {
            assert!(write(wrong).is_err(), "{wrong}");
        }
    }
}
