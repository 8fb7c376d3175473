//! Damaged messages: what both codecs take, they read alike, and the other one takes all that ours takes, but for the forms that it
//! reads otherwise. It takes more: it does not look at reserved bits, or at octets behind the message.

use crate::{capture, read_by_them};
use rtwire_wire::uadp::NetworkMessage;
use rtwire_zerodds::forms::unlike;
use rtwire_zerodds::ours;
use std::path::PathBuf;

const ROUNDS: usize = 100_000;

/// The inputs that the fuzz target `uadp` begins with: one for each form.
fn corpus() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/uadp");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn what_both_take_they_read_alike() {
    let mut messages: Vec<Vec<u8>> = capture::all().into_iter().map(|(_, bytes)| bytes).collect();
    // A few octets where the recordings have hundreds of messages: as often as all of them.
    let corpus = corpus();
    assert!(corpus.len() > 30, "{}", corpus.len());
    let recorded = messages.len();
    messages.extend(corpus.iter().cycle().take(recorded).cloned());
    // xorshift64*: the same mutants in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % below
    };
    let (mut both, mut otherwise, mut only_ours, mut only_theirs, mut neither) = (0, 0, 0, 0, 0);
    for _ in 0..ROUNDS {
        let mut mutant = messages[random(messages.len())].clone();
        for _ in 0..1 + random(3) {
            let at = random(mutant.len());
            match random(5) {
                0 | 1 => mutant[at] ^= 1 << random(8),
                2 => mutant[at] = [0, 0xff, 0x7f, 0x80][random(4)],
                3 => mutant.truncate(at.max(1)),
                _ => mutant.insert(at, random(256) as u8),
            }
        }
        let ours = NetworkMessage::parse(&mutant, 0);
        let theirs = read_by_them(&mutant);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let difference = ours::reading(&ours).difference(&theirs);
                match unlike(&ours) {
                    None => assert_eq!(difference, None, "{mutant:02x?}"),
                    Some(_) => otherwise += 1,
                }
                both += 1;
            }
            (Ok(ours), Err(error)) => {
                // Padding up to a message's size is zeros (Part 14, 7.2.4.5.5). The other codec takes none.
                let padded = error.contains("shorter than its declared payload size");
                assert!(unlike(&ours).is_some() || padded, "{mutant:02x?}: {error}");
                only_ours += 1;
            }
            (Err(_), Ok(_)) => only_theirs += 1,
            (Err(_), Err(_)) => neither += 1,
        }
    }
    println!(
        "{both} of {ROUNDS} mutants are read by both ({otherwise} of a form that is read otherwise), \
         {only_ours} by ours only, {only_theirs} by theirs only, {neither} by neither"
    );
    assert!(both > ROUNDS / 10 && neither > ROUNDS / 20);
}
