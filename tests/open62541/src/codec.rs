//! The cost of open62541's own codec, for the benchmark: it reads and writes the messages that it is given.

use crate::peer::numeric;
use open62541_sys as ua;
use std::hint::black_box;
use std::ptr;
use std::time::Instant;

/// Messages in a round.
const MESSAGES: u32 = 20_000;

/// The number of fields: `Int32` and `Double` in turns.
const FIELDS: usize = 10;

/// A `UA_NetworkMessage`, into which only the library looks: some 300 octets. The library leaves it empty, all zeroes, when it clears it.
#[repr(C, align(16))]
struct Message([u8; 4096]);

/// `UA_DataSetMessage_EncodingMetaData` of `pubsub.h`.
#[repr(C)]
struct WriterOptions {
    writer: u16,
    fields_count: usize,
    fields: *mut ua::UA_FieldMetaData,
    configured_octets: u16,
}

/// `UA_NetworkMessage_EncodingOptions` of `pubsub.h`.
#[repr(C)]
struct Options {
    writers_count: usize,
    writers: *mut WriterOptions,
}

// Of `pubsub.h`, which the bindings do not read.
#[allow(non_snake_case, reason = "the library's names")]
unsafe extern "C" {
    fn UA_NetworkMessage_encodeBinary(
        message: *const Message,
        out: *mut ua::UA_ByteString,
        options: *const Options,
    ) -> ua::UA_StatusCode;
    fn UA_NetworkMessage_calcSizeBinary(message: *const Message, options: *const Options) -> usize;
    fn UA_NetworkMessage_decodeBinary(
        source: *const ua::UA_ByteString,
        message: *mut Message,
        options: *const Options,
        decoding: *const ua::UA_DecodeBinaryOptions,
    ) -> ua::UA_StatusCode;
    fn UA_NetworkMessage_clear(message: *mut Message);
}

/// Returns how the writer's fields are encoded where the message does not say it. It lives as long as the process.
fn metadata() -> Options {
    let fields: Vec<ua::UA_FieldMetaData> = (0..FIELDS)
        .map(|field| {
            let built_in = [6, 11][field % 2];
            // SAFETY: all zeroes is a valid, empty description.
            let mut described: ua::UA_FieldMetaData = unsafe { std::mem::zeroed() };
            described.builtInType = built_in;
            described.dataType = numeric(0, u32::from(built_in));
            described.valueRank = -1;
            described
        })
        .collect();
    let fields: &'static mut [ua::UA_FieldMetaData] = fields.leak();
    let writer = WriterOptions {
        writer: 0,
        fields_count: fields.len(),
        fields: fields.as_mut_ptr(),
        configured_octets: 0,
    };
    Options {
        writers_count: 1,
        writers: Box::into_raw(Box::new(writer)),
    }
}

fn octets(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let octets = digits.map(|pair| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    });
    octets.collect()
}

/// Prints the fastest round of some work, in ns for a message.
fn say(what: &str, rounds: u32, mut work: impl FnMut()) {
    let mut fastest = f64::INFINITY;
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..MESSAGES {
            work();
        }
        fastest = fastest.min(begun.elapsed().as_nanos() as f64 / f64::from(MESSAGES));
    }
    println!("{what} {fastest}");
}

/// Measures one message, in hexadecimal digits: encode, size, decode. What it writes must be what it has read.
pub fn measure(name: &str, text: &str, rounds: u32) {
    let mut input = octets(text);
    let options = metadata();
    let source = ua::UA_ByteString {
        length: input.len(),
        data: input.as_mut_ptr(),
    };
    let decode = |message: &mut Message| {
        let source = black_box(&raw const source);
        // SAFETY: source, place and options are valid and laid out as in `pubsub.h`; no options of decoding are the default ones.
        let code =
            unsafe { UA_NetworkMessage_decodeBinary(source, message, &options, ptr::null()) };
        assert_eq!(code, 0, "decode: status 0x{code:08x}");
    };
    let mut message = Message([0; 4096]);
    decode(&mut message);
    let mut out = [0_u8; 512];
    let mut encode = || {
        let mut place = ua::UA_ByteString {
            length: out.len(),
            data: out.as_mut_ptr(),
        };
        // SAFETY: message, place and options are valid, and the place has the length that it names.
        let code = unsafe {
            UA_NetworkMessage_encodeBinary(black_box(&message), &raw mut place, &options)
        };
        assert_eq!(code, 0, "encode: status 0x{code:08x}");
        black_box(place.length)
    };
    say(&format!("{name} encode"), rounds, || {
        encode();
    });
    let length = encode();
    let written = out.get(..length);
    assert_eq!(written, Some(input.as_slice()), "it writes another message");
    say(&format!("{name} size"), rounds, || {
        // SAFETY: message and options are valid.
        let size = unsafe { UA_NetworkMessage_calcSizeBinary(black_box(&message), &options) };
        assert_eq!(size, input.len());
    });
    let mut message = Message([0; 4096]);
    say(&format!("{name} decode"), rounds, || {
        decode(&mut message);
        // SAFETY: the message was decoded, and nobody looks at what was in it any more.
        unsafe { UA_NetworkMessage_clear(&raw mut message) };
    });
}
