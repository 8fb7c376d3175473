//! Tests of answers: their headers, their content, its patches, and questions without an answer.

use super::layout::Reply;
use super::test_bench::{ASKING, Bench, DROP, OWN, PEER, build, tag};
use super::*;
use rtwire_sys::clock::{self, Clock};
use rtwire_testkit::require;
use rtwire_wire::MacAddress;
use rtwire_wire::rtdip::Semantics;

#[test]
fn an_answer_has_prepared_content_and_the_questions_number() {
    require!(root);
    let mut bench = Bench::new();
    let mut responder = bench
        .program
        .respond_channel(1002, 7, Some(b"first"))
        .unwrap();
    let mut number = 0;
    let mut answers = 0;
    for length in [5, 0, 1, 21, 22, 23, 64, 1450, 1476] {
        let content: Vec<u8> = (0..length).map(|at| at as u8 | 0x80).collect();
        if length != 5 {
            responder.replace(&content).unwrap();
        }
        let expected: &[u8] = if length == 5 { b"first" } else { &content };
        for vlan in [None, tag()] {
            for question in [0, 1, 300, 1476] {
                number += 1;
                let mut build = build(1002, number);
                build.vlan = vlan;
                build.header.time_ns = (question != 1).then_some(99);
                let before = clock::now_ns(Clock::Tai);
                let (ethernet, header, data) = bench.answer(&build.frame(&vec![0xee; question]));
                assert_eq!(
                    (ethernet.destination, ethernet.source, ethernet.vlan),
                    (PEER, OWN, vlan)
                );
                assert_eq!(
                    (header.destination_port, header.source_port),
                    (ASKING, 1002)
                );
                assert_eq!(
                    (header.sequence, header.key, header.priority.get()),
                    (number, 7, 5)
                );
                assert_eq!(header.semantics, Semantics::Newest);
                assert_eq!(data, expected);
                assert!(header.time_ns.unwrap() + 1_000_000 > before);
                let tag = if vlan.is_some() { 4 } else { 0 };
                assert_eq!(bench.left().len(), (38 + length).max(60) + tag);
                let padding = &bench.left()[38 + tag + length..];
                assert!(
                    padding.iter().all(|&octet| octet == 0),
                    "no octet of the question is left"
                );
                answers += 1;
            }
        }
    }
    assert_eq!(
        responder.counters(),
        ChannelCounters {
            accepted: answers,
            ..Default::default()
        }
    );
    assert!(matches!(
        responder.replace(&[0; 1477]),
        Err(ProgramError::TooLong { octets: 1477 })
    ));
}

#[test]
fn an_echo_is_the_question_sent_back() {
    require!(root);
    let mut bench = Bench::new();
    let _responder = bench.program.respond_channel(1002, 7, None).unwrap();
    for time_ns in [None, Some(5)] {
        let mut build = build(1002, 3);
        build.header.time_ns = time_ns;
        build.to = MacAddress::BROADCAST;
        let question = build.frame(b"some words");
        let (ethernet, header, data) = bench.answer(&question);
        assert_eq!(
            (ethernet.destination, ethernet.source),
            (PEER, OWN),
            "its own address, not the group's"
        );
        assert_eq!((data.as_slice(), header.sequence), (&b"some words"[..], 3));
        assert_eq!(header.time_ns.is_some(), time_ns.is_some());
        assert_ne!(header.time_ns, Some(5), "the time at which it came");
        assert_eq!(bench.left().len(), question.len());
    }
}

#[test]
fn responders_never_answer_each_other() {
    require!(root);
    let mut bench = Bench::new();
    let responder = bench.program.respond_channel(1002, 7, None).unwrap();
    let mut question = build(1002, 1);
    question.header.source_port = ASKING - 1;
    assert_eq!(bench.run(&question.frame(&[0])), DROP);
    question.header.source_port = ASKING;
    question.from = MacAddress([3, 0, 0, 0, 0, 2]);
    assert_eq!(
        bench.run(&question.frame(&[0])),
        DROP,
        "an answer must not go to a group"
    );
    assert_eq!(responder.counters().no_question, 2);
    let refused = bench.program.respond_channel(ASKING, 7, None);
    assert!(matches!(
        refused,
        Err(ProgramError::AskingPort { port: ASKING })
    ));
}

#[test]
fn fields_of_the_question_are_put_into_the_answer() {
    require!(root);
    let mut bench = Bench::new();
    let question_at = |offset| PatchSource::Question { offset };
    let patch = |source, octets, place| Patch {
        source,
        octets,
        place,
    };
    let patches = [
        patch(question_at(3), 1, 0),
        patch(question_at(0), 16, 20),
        patch(PatchSource::Sequence, 4, 40),
        patch(PatchSource::ArrivalTime, 8, 92),
        patch(question_at(112), 16, 50),
    ];
    let content: Vec<u8> = (0..100).map(|at| at ^ 0xff).collect();
    let mut responder = bench
        .program
        .respond_channel_with(1002, 7, Some(&content), &patches)
        .unwrap();
    for (number, length) in (1000..).zip([0, 1, 5, 16, 100, 120, 127, 128, 129, 1400]) {
        for vlan in [None, tag()] {
            let mut question = build(1002, number);
            question.vlan = vlan;
            let data: Vec<u8> = (0..length).map(|at| (at * 3 + 1) as u8).collect();
            let before = clock::now_ns(Clock::Tai);
            let (_, header, answer) = bench.answer(&question.frame(&data));
            let came = u64::from_be_bytes(answer[92..].try_into().unwrap());
            let told = header.time_ns.unwrap();
            // The clock that a program may read is not strictly in step with the clock here.
            assert!(
                came + 1_000_000 > before && came < told + 1_000_000,
                "{before} {came} {told}"
            );
            // The same in user space, as in the responder over packet sockets.
            let mut expected = content.clone();
            apply_patches(&patches, &data, number, came, &mut expected);
            assert_eq!(answer, expected, "{length}");
            assert_eq!(answer[0], data.get(3).copied().unwrap_or(0));
            assert_eq!(answer[40..44], number.to_be_bytes());
        }
    }
    // Content and patches are replaced together; there may be no patches.
    responder.replace_with(&[9; 36], &patches[..2]).unwrap();
    let (.., answer) = bench.answer(&build(1002, 1).frame(&[5; 40]));
    assert_eq!(answer, [&[5][..], &[9; 19], &[5; 16]].concat());
    responder.replace(&[9; 3]).unwrap();
    assert_eq!(bench.answer(&build(1002, 1).frame(&[5; 40])).2, [9; 3]);

    let mut fails = |number, patch: Patch| {
        let refused = responder.replace_with(&[0; 50], &[patches[0], patch]);
        assert!(
            matches!(refused, Err(ProgramError::Patch { number: found }) if found == number),
            "{patch:?}: {refused:?}"
        );
    };
    fails(1, patch(question_at(0), 0, 0));
    fails(1, patch(question_at(0), 17, 0));
    fails(1, patch(question_at(125), 4, 0));
    fails(1, patch(PatchSource::Sequence, 8, 0));
    fails(1, patch(PatchSource::ArrivalTime, 9, 0));
    fails(1, patch(question_at(0), 4, 47));
    let many = [patches[0]; 9];
    let refused = responder.replace_with(&[0; 50], &many).unwrap_err();
    assert!(refused.to_string().contains("at most 8"), "{refused}");
    let (.., answer) = bench.answer(&build(1002, 1).frame(&[5; 40]));
    assert_eq!(answer, [9; 3], "what is refused changes nothing");
}

/// The first content with patches may come between two steps of the program: it has then collected no sources for them.
#[test]
fn a_question_between_two_contents_is_counted_and_left_as_it_came() {
    require!(root);
    let mut bench = Bench::new();
    let patch = Patch {
        source: PatchSource::Sequence,
        octets: 4,
        place: 0,
    };
    let mut responder = bench
        .program
        .respond_channel_with(1002, 7, Some(&[1; 900]), &[patch])
        .unwrap();
    let patched = Reply::Patched as usize;
    let replies = &bench.program.shared.replies;
    replies
        .word(0, patched)
        .unwrap()
        .store(0, Ordering::Relaxed);
    let question = build(1002, 1).frame(&[5; 40]);
    assert_eq!(bench.run(&question), DROP);
    assert_eq!(bench.left(), question);
    let counted = |unanswered, accepted| ChannelCounters {
        unanswered,
        accepted,
        ..Default::default()
    };
    assert_eq!(responder.counters(), counted(1, 0));
    responder.replace_with(&[1; 900], &[patch]).unwrap();
    let (.., answer) = bench.answer(&question);
    assert_eq!(answer[..5], [0, 0, 0, 1, 1]);
    assert_eq!(responder.counters(), counted(1, 1));
}
