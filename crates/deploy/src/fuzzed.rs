//! The ends of a line on bytes of any kind, for the fuzz target `deploy_line`.

use std::io::{self, Read, Write};

use rtwire_manager::Key;

use crate::line::Line;
use crate::order::{Order, Reply};

/// Bytes that come; what goes is dropped.
struct Tape<'a>(&'a [u8]);

impl Read for Tape<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Tape<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Feeds bytes to both ends of a line, and to the readers of orders and replies. No input has the MAC of the line's key.
///
/// # Panics
/// An end believes them, or an order is not what its own text says.
pub fn line(bytes: &[u8]) {
    let hello = [b"RTWD\x01".as_slice(), bytes].concat();
    for input in [bytes, &hello] {
        if let Ok(mut line) = Line::door(Tape(input), Key::new(&[0x5a; 32]), [2; 32]) {
            assert!(line.receive().is_err(), "the door believes a stranger");
        }
        let deployer = Line::deployer(Tape(input), Key::new(&[0x5a; 32]), [1; 32]);
        assert!(deployer.is_err(), "the deployer believes a stranger");
    }
    if let Ok(order) = serde_json::from_slice::<Order>(bytes) {
        let again = serde_json::to_vec(&order).ok();
        let again = again.and_then(|text| serde_json::from_slice(&text).ok());
        assert_eq!(Some(order), again);
    }
    if let Ok(reply) = serde_json::from_slice::<Reply>(bytes) {
        let again = serde_json::to_vec(&reply).ok();
        let again = again.and_then(|text| serde_json::from_slice(&text).ok());
        assert_eq!(Some(reply), again);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn strangers_and_orders_are_read_without_harm() {
        for bytes in [
            &b""[..],
            b"RTWD\x01",
            &[0; 400],
            br#"{"order":"ready"}"#,
            br#"{"order":"apply","plan":"{}","confirm_within_s":3}"#,
            br#"{"code":0,"text":"done","attached":true}"#,
        ] {
            super::line(bytes);
        }
    }
}
