//! BPF programs that are not rtwire's: compiled by clang, which the build needs anyway.

use rtwire_sys::bpf::BpfObject;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const SOURCE: &str = "__attribute__((section(\"xdp\"), used)) int foreign(void *frame) { return 2; }\n\
    char LICENSE[] __attribute__((section(\"license\"), used)) = \"GPL\";\n";
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns an object with one XDP program, `foreign`, that passes every frame on.
#[must_use]
pub fn foreign_xdp() -> BpfObject {
    foreign_bpf(SOURCE)
}

/// Returns an object compiled from C without any header.
#[must_use]
pub fn foreign_bpf(source: &str) -> BpfObject {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("rtwtest-foreign-{}-{number}.o", std::process::id());
    let object = std::env::temp_dir().join(name);
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut child = Command::new(clang)
        .args(["-O2", "-target", "bpf", "-x", "c", "-c", "-", "-o"])
        .arg(&object)
        .stdin(Stdio::piped())
        .spawn()
        .expect("clang is there: it has compiled what is tested");
    let mut input = child.stdin.take().expect("it was asked for");
    input.write_all(source.as_bytes()).expect("clang reads it");
    drop(input);
    assert!(child.wait().is_ok_and(|status| status.success()));
    let octets = std::fs::read(&object).expect("clang has written it");
    let _ = std::fs::remove_file(&object);
    BpfObject::load("foreign", &octets, &[]).expect("root may load it")
}

/// A program for `tc` at egress, `tag`: puts the tag of VLAN 42 with PCP 5 *beside* each frame, as a VLAN interface does it.
// 18 is bpf_skb_vlan_push; 0x0081 is 0x8100 on the wire.
pub const TAG_BESIDE: &str = r#"
    static long (*push)(void *skb, unsigned short protocol, unsigned short tci) = (void *)18;
    __attribute__((section("tc"), used)) int tag(void *skb)
    {
        push(skb, 0x0081, 5 << 13 | 42);
        return 0;
    }
    char _license[] __attribute__((section("license"), used)) = "GPL";
"#;
