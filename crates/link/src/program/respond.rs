//! Replies that the driver sends.

use super::attach::Variant;
use super::layout::{
    Action, BUFFERS, CONTENT_WORDS, Content, DATA_OCTETS, FIRST_ASKING_PORT, PATCHES, REPLY_WORDS,
    Reply,
};
use super::{
    ChannelCounters, OpenChannel, Patch, Police, ProgramError, ReceiveProgram, Shared, XdpMode,
    check_patches,
};
use crate::xdp;
use std::sync::atomic::{Ordering, fence};

/// A channel whose questions the receive program answers. It closes when it is dropped.
#[derive(Debug)]
pub struct Responder {
    channel: OpenChannel,
}

impl Responder {
    /// Replaces the content of the answers while the program runs. Each answer holds either the old or the new
    /// content as a whole. No system call; one copy.
    ///
    /// # Errors
    /// The content does not fit in a frame: more than 1476 bytes.
    pub fn replace(&mut self, content: &[u8]) -> Result<(), ProgramError> {
        self.replace_with(content, &[])
    }

    /// Replaces the content and the fields of each question that are copied into its answer. Both are replaced
    /// together.
    ///
    /// # Errors
    /// The content does not fit in a frame, or a patch is not possible ([`ProgramError::Patch`]).
    pub fn replace_with(&mut self, content: &[u8], patches: &[Patch]) -> Result<(), ProgramError> {
        write(&self.channel.program, self.channel.index, content, patches)?;
        store(
            &self.channel.program,
            self.channel.index,
            Reply::Echo as usize,
            0,
        );
        Ok(())
    }

    /// Sets a contract: questions beyond it are dropped. `None` removes the contract.
    ///
    /// # Errors
    /// The contract is not possible.
    pub fn police(&self, police: Option<&Police>) -> Result<(), ProgramError> {
        self.channel.police(police)
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> ChannelCounters {
        self.channel.counters()
    }
}

fn store(program: &Shared, index: usize, word: usize, value: u64) {
    if let Some(word) = program.replies.word(index, word) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Writes the next content and makes it the current one. There is one writer at a time: `replace` takes `&mut`.
fn write(
    program: &Shared,
    index: usize,
    content: &[u8],
    patches: &[Patch],
) -> Result<(), ProgramError> {
    check_patches(content, patches)?;
    let Some(version) = program.replies.word(index, Reply::Version as usize) else {
        return Ok(());
    };
    if !patches.is_empty() {
        // Set before the content: the program must collect the patches' sources first.
        store(program, index, Reply::Patched as usize, 1);
    }
    let next = version.load(Ordering::Relaxed) + 1;
    let at = Reply::Content as usize + (next % BUFFERS) as usize * CONTENT_WORDS;
    // The version stored last time must be visible before this buffer is overwritten: a program that still copies it
    // then notices.
    fence(Ordering::SeqCst);
    store(
        program,
        index,
        at + Content::Length as usize,
        content.len() as u64,
    );
    let field = |field: Content, number: usize, value| {
        store(program, index, at + field as usize + number, value);
    };
    field(Content::Patches, 0, patches.len() as u64);
    for number in 0..PATCHES {
        let word = patches.get(number).map_or(0, Patch::word);
        field(Content::Patch, number, word);
    }
    let mut octets = [0_u8; DATA_OCTETS];
    octets[..content.len()].copy_from_slice(content);
    for (word, chunk) in octets.chunks_exact(8).enumerate() {
        let mut value = [0; 8];
        value.copy_from_slice(chunk);
        store(
            program,
            index,
            at + Content::Data as usize + word,
            u64::from_ne_bytes(value),
        );
    }
    version.store(next, Ordering::Release);
    Ok(())
}

impl ReceiveProgram {
    /// Opens a channel at a port whose questions the driver answers: with `content`, or with the question's own data
    /// if there is none. In both cases the answer has the question's sequence number. If it has a timestamp
    /// (prepared content always has), that is the question's arrival time.
    ///
    /// Questions must come from a port of 49152 or above; others are dropped and counted.
    ///
    /// # Errors
    /// The port is in use, or is 49152 or above; all channels are in use; the content does not fit. In native mode, the
    /// driver keeps VLAN tags outside of frames and does not tell them ([`ProgramError::HiddenTags`]).
    pub fn respond_channel(
        &self,
        port: u16,
        key: u32,
        content: Option<&[u8]>,
    ) -> Result<Responder, ProgramError> {
        self.respond_channel_with(port, key, content, &[])
    }

    /// Opens the same with fields of each question copied into its answer. Without `content` no field is copied.
    ///
    /// # Errors
    /// As [`respond_channel`](Self::respond_channel); a patch is not possible ([`ProgramError::Patch`]).
    pub fn respond_channel_with(
        &self,
        port: u16,
        key: u32,
        content: Option<&[u8]>,
        patches: &[Patch],
    ) -> Result<Responder, ProgramError> {
        if port >= FIRST_ASKING_PORT {
            return Err(ProgramError::AskingPort { port });
        }
        check_patches(content.unwrap_or_default(), patches)?;
        self.check_tags()?;
        let channel = self.open(port, key, Action::Respond, |program, index| {
            for word in 0..REPLY_WORDS {
                store(program, index, word, 0);
            }
            store(
                program,
                index,
                Reply::Echo as usize,
                content.is_none().into(),
            );
            write(program, index, content.unwrap_or_default(), patches)
        })?;
        Ok(Responder { channel })
    }

    /// Refuses to answer where the answers would lose the VLAN tags of their questions.
    fn check_tags(&self) -> Result<(), ProgramError> {
        // In generic mode the tag stays beside the frame, also of an answer.
        if self.mode() != XdpMode::Native || self.shared.variant == Variant::AsksForTags {
            return Ok(());
        }
        let name = &self.shared.interface.name;
        let Some(driver) = xdp::hides_tags(name)? else {
            return Ok(());
        };
        Err(ProgramError::HiddenTags {
            interface: name.clone(),
            driver,
        })
    }
}
