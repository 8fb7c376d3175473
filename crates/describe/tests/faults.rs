//! Every fault that a description may have, one small file each, with its message.
//!
//! The messages are in `faults.txt`. `RTWIRE_UPDATE=1 cargo test -p rtwire-describe --test faults` writes it again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;
use std::path::Path;

use rtwire_describe::read;

/// A good description that each case spoils.
const GOOD: &str = r#"[network]
name = "test"
[defaults]
link-rate = "100 Mbit/s"
[[switch]]
name = "s1"
buffer = "64 KiB"
[[switch]]
name = "s2"
shared-buffer = "64 KiB"
[[host]]
name = "A"
[[host]]
name = "B"
[[link]]
ends = ["A", "s1"]
[[link]]
ends = ["s1", "s2"]
[[link]]
ends = ["s2", "B"]
[[stream]]
name = "one"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
"#;

/// The name of the fault, the text to replace in `GOOD`, and its replacement.
const CASES: &[(&str, &str, &str)] = &[
    ("syntax: no value", "name = \"test\"", "name ="),
    (
        "router: a layer-2 stream",
        "[[switch]]\nname = \"s2\"",
        "[[router]]\nname = \"s2\"",
    ),
    (
        "router: a layer-2 stream's route",
        "[[switch]]\nname = \"s2\"\nshared-buffer = \"64 KiB\"\n[[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[link]]\nends = [\"A\", \"s1\"]\n[[link]]\nends = [\"s1\", \"s2\"]\n[[link]]\nends = [\"s2\", \"B\"]\n[[stream]]\n",
        "[[router]]\nname = \"s2\"\nshared-buffer = \"64 KiB\"\n[[host]]\nname = \"A\"\n[[host]]\nname = \"B\"\n[[link]]\nends = [\"A\", \"s1\"]\n[[link]]\nends = [\"s1\", \"s2\"]\n[[link]]\nends = [\"s2\", \"B\"]\n[[stream]]\nroute = [\"A\", \"s1\", \"s2\", \"B\"]\n",
    ),
    (
        "router: cut-through",
        "[[host]]\nname = \"A\"",
        "[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\ncut-through = \"possible\"\n[[host]]\nname = \"A\"",
    ),
    (
        "router: cut-through of a port",
        "[[host]]\nname = \"A\"",
        "[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\n[[link]]\nends = [\"r1\", \"s1\"]\n[[port]]\nswitch = \"r1\"\nto = \"s1\"\ncut-through = \"on\"\n[[host]]\nname = \"A\"",
    ),
    (
        "router: gates",
        "[[host]]\nname = \"A\"",
        "[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\ngates = \"unlimited\"\n[[host]]\nname = \"A\"",
    ),
    (
        "router: tables",
        "[[host]]\nname = \"A\"",
        "[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\ndscp-priority = { EF = 6, CS9 = 1, 64 = 1, 046 = 1, 10 = 8, 11 = -1, 12 = \"6\" }\nremark = { 46 = 64 }\n[[host]]\nname = \"A\"",
    ),
    (
        "router: a table that is none",
        "[[host]]\nname = \"A\"",
        "[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\ndscp-priority = [46, 6]\nremarks = { 46 = 34 }\n[[host]]\nname = \"A\"",
    ),
    (
        "router: its name is taken, and no other name is one",
        "[[host]]\nname = \"A\"",
        "[[router]]\nname = \"s1\"\nbuffer = \"64 KiB\"\n[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\n[[link]]\nends = [\"r1\", \"s11\"]\n[[host]]\nname = \"A\"",
    ),
    (
        "router: as a listener",
        "[[stream]]\nname = \"one\"\ntalker = \"A\"\nlisteners = [\"B\"]",
        "[[router]]\nname = \"r1\"\nbuffer = \"64 KiB\"\n[[stream]]\nname = \"one\"\ntalker = \"A\"\nlisteners = [\"B\", \"r1\"]",
    ),
    (
        "stream: dscp of layer 2",
        "payload = \"64 B\"",
        "payload = \"64 B\"\ndscp = 46",
    ),
    (
        "stream: dscp without a router",
        "payload = \"64 B\"",
        "payload = \"64 B\"\ntransport = \"udp\"\ndscp = 46",
    ),
    (
        "stream: dscp out of range",
        "payload = \"64 B\"",
        "payload = \"64 B\"\ndscp = 64",
    ),
    (
        "stream: type of service",
        "payload = \"64 B\"",
        "payload = \"64 B\"\ntos = 184",
    ),
    (
        "shaper: unknown node",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"s9\"\npriority = 7\nkind = \"credit\"\nidle-slope = \"1 Mbit/s\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: no such link",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"s1\"\nto = \"B\"\npriority = 7\nkind = \"asynchronous\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: credit without slope",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"s1\"\npriority = 7\nkind = \"credit\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: slope of a regulator",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"s1\"\npriority = 7\nkind = \"asynchronous\"\nidle-slope = \"1 Mbit/s\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: regulator at a host",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"A\"\npriority = 7\nkind = \"asynchronous\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: twice",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"s1\"\npriority = 7\nkind = \"asynchronous\"\n[[shaper]]\nnode = \"s1\"\nto = \"A\"\npriority = 0\nkind = \"asynchronous\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: not the highest class",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"A\"\npriority = 3\nkind = \"credit\"\nidle-slope = \"1 Mbit/s\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "shaper: more than the link",
        "[[stream]]\nname = \"one\"",
        "[[shaper]]\nnode = \"A\"\npriority = 7\nkind = \"credit\"\nidle-slope = \"100 Mbit/s\"\n[[stream]]\nname = \"one\"",
    ),
    (
        "clock drift without unit",
        "[defaults]\n",
        "[defaults]\nclock-drift = \"100\"\n",
    ),
    (
        "clock drift beyond reason",
        "[defaults]\n",
        "[defaults]\nclock-drift = \"20 %\"\n",
    ),
    (
        "smallest frame larger than the frame",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nsmallest-frame = \"200 B\"",
    ),
    ("syntax: unclosed text", "name = \"test\"", "name = \"test"),
    (
        "syntax: key twice",
        "name = \"test\"",
        "name = \"test\"\nname = \"again\"",
    ),
    (
        "two syntax errors at once",
        "name = \"test\"\n[defaults]",
        "name = \n[defaults]\ntick-error = = 3",
    ),
    (
        "unknown table",
        "[[host]]\nname = \"A\"",
        "[[hosts]]\nname = \"A\"",
    ),
    (
        "unknown key at the top",
        "[network]",
        "colour = \"red\"\n[network]",
    ),
    (
        "unknown key in network",
        "name = \"test\"",
        "name = \"test\"\ntitle = \"x\"",
    ),
    (
        "unknown key in defaults",
        "link-rate =",
        "shaping_interval = \"1 ms\"\nlink-rate =",
    ),
    (
        "unknown key in switch",
        "buffer = \"64 KiB\"\n[[switch]]",
        "buffer = \"64 KiB\"\nqueus = 2\n[[switch]]",
    ),
    (
        "unknown key in host",
        "name = \"A\"",
        "name = \"A\"\nlatncy = \"1 us\"",
    ),
    (
        "unknown key in link",
        "ends = [\"A\", \"s1\"]",
        "ends = [\"A\", \"s1\"]\nspeed = \"1 Gbit/s\"",
    ),
    (
        "unknown key in stream",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nprioriti = 5",
    ),
    (
        "unknown key in best-effort",
        "[[stream]]",
        "[[best-effort]]\nhost = \"A\"\nto = [\"B\"]\nrate = \"1 Mbit/s\"\nperiod = \"1 ms\"\n[[stream]]",
    ),
    ("missing table", "[network]\nname = \"test\"\n", ""),
    ("missing name", "name = \"one\"\n", ""),
    ("missing talker", "talker = \"A\"\n", ""),
    ("missing rate of a link", "link-rate = \"100 Mbit/s\"\n", ""),
    (
        "missing buffer",
        "buffer = \"64 KiB\"\n[[switch]]",
        "[[switch]]",
    ),
    (
        "a misspelt key is one fault",
        "talker = \"A\"",
        "taker = \"A\"",
    ),
    ("wrong type: number for text", "name = \"test\"", "name = 5"),
    (
        "wrong type: number for rate",
        "link-rate = \"100 Mbit/s\"",
        "link-rate = 100",
    ),
    (
        "wrong type: text for list",
        "listeners = [\"B\"]",
        "listeners = \"B\"",
    ),
    (
        "wrong type: list of numbers",
        "listeners = [\"B\"]",
        "listeners = [1]",
    ),
    (
        "wrong type: fraction for whole number",
        "payload = \"64 B\"",
        "payload = \"64 B\"\npriority = 1.5",
    ),
    (
        "wrong type: table for value",
        "[network]\nname = \"test\"",
        "[network]\nname.first = \"test\"",
    ),
    ("one table written as many", "[network]", "[[network]]"),
    ("many tables written as one", "[[stream]]", "[stream]"),
    (
        "wrong unit: time for rate",
        "link-rate = \"100 Mbit/s\"",
        "link-rate = \"100 ms\"",
    ),
    (
        "wrong unit: rate for data",
        "payload = \"64 B\"",
        "payload = \"64 B/s\"",
    ),
    (
        "unknown unit",
        "link-rate = \"100 Mbit/s\"",
        "link-rate = \"100 Mbps\"",
    ),
    (
        "unit in wrong case",
        "interval = \"1 ms\"",
        "interval = \"1 MS\"",
    ),
    ("missing unit", "interval = \"1 ms\"", "interval = \"1\""),
    ("no number", "interval = \"1 ms\"", "interval = \"fast\""),
    ("negative", "interval = \"1 ms\"", "interval = \"-1 ms\""),
    ("absurd", "interval = \"1 ms\"", "interval = \"1000000 s\""),
    (
        "beyond 128 bits",
        "interval = \"1 ms\"",
        "interval = \"99999999999999999999999999999999999999999999 s\"",
    ),
    ("too fine", "interval = \"1 ms\"", "interval = \"0.5 ns\""),
    (
        "zero interval",
        "interval = \"1 ms\"",
        "interval = \"0 ms\"",
    ),
    ("zero rate", "interval = \"1 ms\"", "rate = \"0 bit/s\""),
    (
        "zero link rate",
        "link-rate = \"100 Mbit/s\"",
        "link-rate = \"0 Mbit/s\"",
    ),
    (
        "zero shaping interval",
        "interval = \"1 ms\"",
        "rate = \"1 Mbit/s\"\nshaping-interval = \"0 us\"",
    ),
    (
        "zero buffer",
        "shared-buffer = \"64 KiB\"",
        "shared-buffer = \"0 x 1514 B\"",
    ),
    ("half a byte", "payload = \"64 B\"", "payload = \"12 bit\""),
    ("two hosts of one name", "name = \"B\"", "name = \"A\""),
    (
        "a switch with a host's name",
        "name = \"B\"",
        "name = \"s1\"",
    ),
    (
        "two streams of one name",
        "[[stream]]",
        "[[stream]]\nname = \"one\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"1 B\"\ninterval = \"1 ms\"\n[[stream]]",
    ),
    (
        "two streams on one port",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nport = 7\n[[stream]]\nname = \"two\"\nport = 7\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"1 B\"\ninterval = \"1 ms\"",
    ),
    ("bad name", "name = \"one\"", "name = \"one stream\""),
    ("dangling talker", "talker = \"A\"", "talker = \"a\""),
    (
        "dangling listener",
        "listeners = [\"B\"]",
        "listeners = [\"Bob\"]",
    ),
    ("a switch as talker", "talker = \"A\"", "talker = \"s1\""),
    (
        "dangling link end",
        "ends = [\"s2\", \"B\"]",
        "ends = [\"s3\", \"B\"]",
    ),
    (
        "a link to itself",
        "ends = [\"s1\", \"s2\"]",
        "ends = [\"s1\", \"s1\"]",
    ),
    (
        "a link of three ends",
        "ends = [\"s1\", \"s2\"]",
        "ends = [\"s1\", \"s2\", \"B\"]",
    ),
    (
        "a link twice",
        "[[stream]]",
        "[[link]]\nends = [\"s2\", \"s1\"]\n[[stream]]",
    ),
    (
        "a host without a link",
        "[[link]]\nends = [\"s2\", \"B\"]\n",
        "",
    ),
    (
        "an unreachable listener",
        "[[link]]\nends = [\"s1\", \"s2\"]\n",
        "",
    ),
    (
        "preemption of a switch",
        "buffer = \"64 KiB\"\n[[switch]]",
        "buffer = \"64 KiB\"\npreemption = \"on\"\n[[switch]]",
    ),
    (
        "preemption as a table",
        "[defaults]",
        "[frame-preemption]\nexpress = 7\n[defaults]",
    ),
    (
        "preemptable: no neighbour has it",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0]\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "preemptable: priorities of one queue",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0]\nqueues = 4\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "preemptable: an express queue below",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [4, 5, 6, 7]\nqueues = 4\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "preemptable: a priority that is none",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0, 8]\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "preemptable: a priority twice",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0, 0]\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "preemptable: a word",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = \"low\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "preemptable: words",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [\"low\"]\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "preemptable: beside cut-through",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0]\nqueues = 8\ncut-through = \"on\"\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "preemptable: beside gates",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0]\nqueues = 8\ngates = \"unlimited\"\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "additional-fragment-size: too large",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = []\nadditional-fragment-size = 4\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "additional-fragment-size: without preemption",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nadditional-fragment-size = 1\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "preemptable: another frame-overhead",
        "link-rate = \"100 Mbit/s\"\n[[switch]]\nname = \"s1\"\nbuffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "link-rate = \"100 Mbit/s\"\nframe-overhead = \"0 B\"\n[[switch]]\nname = \"s1\"\nbuffer = \"64 KiB\"\nqueues = 8\npreemptable = [0]\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "preemptable: one queue",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\npreemptable = [0, 1, 2, 3]\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "preemptable: at a port to a neighbour without",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nqueues = 8\npreemptable = []\n[[port]]\nswitch = \"s1\"\nto = \"A\"\npreemptable = [0]\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "flow-meters: no drift of clocks",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "flow-meters: another word",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"yes\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "flow-meters: beside gates",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\nqueues = 8\ngates = \"unlimited\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "flow-meters: beside cut-through",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\ncut-through = \"on\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "flow-meters: beside preemption",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\nqueues = 8\npreemptable = [0]\n[[switch]]\nname = \"s2\"\npreemptable = []\n",
    ),
    (
        "meter-overhead: without meters",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nmeter-overhead = \"4 B\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "meter-overhead: no bytes",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\nmeter-overhead = \"3 bit\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "meter-overhead: more than a frame has",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\nmeter-overhead = \"25 B\"\n[[switch]]\nname = \"s2\"\n",
    ),
    (
        "meter-overhead: differs",
        "buffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\n",
        "buffer = \"64 KiB\"\nflow-meters = \"on\"\nmeter-overhead = \"24 B\"\n[[switch]]\nname = \"s2\"\nflow-meters = \"on\"\n",
    ),
    (
        "preemptable: of an input",
        "[[stream]]\nname = \"one\"",
        "[[port]]\nswitch = \"s1\"\nfrom = \"A\"\npreemptable = [0]\n[[stream]]\nname = \"one\"",
    ),
    (
        "preemptable: of a port of a switch without",
        "[[stream]]\nname = \"one\"",
        "[[port]]\nswitch = \"s1\"\nto = \"A\"\npreemptable = [0]\n[[stream]]\nname = \"one\"",
    ),
    (
        "redundancy without a second way",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nredundancy = \"disjoint\"",
    ),
    (
        "redundancy of a stated route",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nredundancy = \"disjoint\"\nroute = [\"A\", \"s1\", \"s2\", \"B\"]",
    ),
    (
        "redundancy at one switch",
        "ends = [\"s2\", \"B\"]\n[[stream]]\nname = \"one\"",
        "ends = [\"s1\", \"B\"]\n[[stream]]\nredundancy = \"disjoint\"\nname = \"one\"",
    ),
    (
        "a route over no link",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nroute = [\"A\", \"s2\", \"B\"]",
    ),
    (
        "a route from elsewhere",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nroute = [\"s1\", \"s2\", \"B\"]",
    ),
    (
        "a route to elsewhere",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nroute = [\"A\", \"s1\", \"s2\"]",
    ),
    (
        "a route in circles",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nroute = [\"A\", \"s1\", \"s2\", \"s1\", \"s2\", \"B\"]",
    ),
    (
        "a route over unknown nodes",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nroute = [\"A\", \"s11\", \"B\"]",
    ),
    (
        "a route that is empty",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nroute = []",
    ),
    (
        "a route for two listeners",
        "listeners = [\"B\"]",
        "listeners = [\"B\", \"C\"]\nroute = [\"A\", \"s1\", \"s2\", \"B\"]\n[[host]]\nname = \"C\"\n[[link]]\nends = [\"C\", \"s1\"]\n[[stream]]\nname = \"two\"\ntalker = \"B\"\nlisteners = [\"A\"]",
    ),
    (
        "a payload that fits no frame",
        "payload = \"64 B\"",
        "payload = \"2 kB\"",
    ),
    (
        "a payload that fits no UDP frame",
        "payload = \"64 B\"",
        "payload = \"1476 B\"\ntransport = \"udp\"",
    ),
    (
        "a frame below the least",
        "payload = \"64 B\"",
        "frame = \"59 B\"",
    ),
    (
        "a tagged frame below the least",
        "payload = \"64 B\"",
        "frame = \"63 B\"\nvlan = 5",
    ),
    (
        "a frame above the largest",
        "payload = \"64 B\"",
        "frame = \"1515 B\"",
    ),
    (
        "a frame without room for data",
        "payload = \"64 B\"",
        "frame = \"66 B\"\ntransport = \"udp\"",
    ),
    (
        "both payload and frame",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nframe = \"128 B\"",
    ),
    ("neither payload nor frame", "payload = \"64 B\"\n", ""),
    (
        "both interval and rate",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nrate = \"1 Mbit/s\"",
    ),
    ("neither interval nor rate", "interval = \"1 ms\"\n", ""),
    (
        "priority out of range",
        "payload = \"64 B\"",
        "payload = \"64 B\"\npriority = 8",
    ),
    (
        "priority below zero",
        "payload = \"64 B\"",
        "payload = \"64 B\"\npriority = -1",
    ),
    (
        "vlan out of range",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nvlan = 4095",
    ),
    (
        "port out of range",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nport = 0",
    ),
    (
        "unknown word",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nsemantics = \"newset\"",
    ),
    (
        "shaper neither on nor off",
        "payload = \"64 B\"",
        "payload = \"64 B\"\nshaper = false",
    ),
    (
        "the talker as listener",
        "listeners = [\"B\"]",
        "listeners = [\"A\", \"B\"]",
    ),
    (
        "a listener twice",
        "listeners = [\"B\"]",
        "listeners = [\"B\", \"B\"]",
    ),
    ("no listener", "listeners = [\"B\"]", "listeners = []"),
    (
        "both buffers",
        "shared-buffer = \"64 KiB\"",
        "shared-buffer = \"64 KiB\"\nbuffer = \"64 KiB\"",
    ),
    (
        "no queue",
        "shared-buffer = \"64 KiB\"",
        "shared-buffer = \"64 KiB\"\nqueues = 0",
    ),
    (
        "too many queues",
        "name = \"A\"",
        "name = \"A\"\nqueues = 9",
    ),
    (
        "a burst below one frame",
        "interval = \"1 ms\"",
        "rate = \"1 Mbit/s\"\nburst = \"64 B\"",
    ),
    (
        "a burst with an interval",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nburst = \"2 kB\"",
    ),
    (
        "an overhead beyond reason",
        "link-rate",
        "frame-overhead = \"2 kB\"\nlink-rate",
    ),
    (
        "best effort from nowhere",
        "[[stream]]",
        "[[best-effort]]\nhost = \"X\"\nto = [\"B\"]\nrate = \"1 Mbit/s\"\n[[stream]]",
    ),
    (
        "best effort with half a frame",
        "[[stream]]",
        "[[best-effort]]\nhost = \"A\"\nto = [\"B\"]\nrate = \"1 Mbit/s\"\nburst = \"100 B\"\n[[stream]]",
    ),
    (
        "a manager on no host",
        "[[stream]]",
        "[manager]\nhost = \"s1\"\n[[stream]]",
    ),
    (
        "a transfer without a manager",
        "[[stream]]",
        "[[transfer]]\nfrom = \"A\"\nto = \"B\"\n[[stream]]",
    ),
    (
        "a transfer that no best effort carries",
        "[[stream]]",
        "[manager]\nhost = \"B\"\n[[transfer]]\nfrom = \"A\"\nto = \"B\"\n[[transfer]]\nfrom = \"A\"\nto = \"A\"\n[[stream]]",
    ),
    (
        "gates: profile unknown",
        "name = \"s1\"\n",
        "name = \"s1\"\ngates = \"unlimitd\"\n",
    ),
    (
        "gate profile: name taken",
        "[[host]]\nname = \"A\"",
        "[[gate-profile]]\nname = \"i225\"\n[[host]]\nname = \"A\"",
    ),
    (
        "schedule: no gates on the way",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\nschedule = \"time-triggered\"",
    ),
    (
        "schedule: one queue for all",
        "name = \"s1\"\nbuffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\nshared-buffer = \"64 KiB\"\n",
        "name = \"s1\"\nbuffer = \"64 KiB\"\ngates = \"unlimited\"\n[[switch]]\nname = \"s2\"\ngates = \"unlimited\"\nqueues = 2\nshared-buffer = \"64 KiB\"\n[[stream]]\nname = \"t\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\npriority = 7\nschedule = \"time-triggered\"\n",
    ),
    (
        "schedule: a queue shared with others",
        "name = \"s1\"\nbuffer = \"64 KiB\"\n[[switch]]\nname = \"s2\"\nshared-buffer = \"64 KiB\"\n",
        "name = \"s1\"\nbuffer = \"64 KiB\"\ngates = \"unlimited\"\nqueues = 8\n[[switch]]\nname = \"s2\"\ngates = \"vsc9959\"\nqueues = 8\nshared-buffer = \"64 KiB\"\n[[best-effort]]\nhost = \"A\"\nto = [\"B\"]\nrate = \"1 Mbit/s\"\n[[stream]]\nname = \"t\"\ntalker = \"A\"\nlisteners = [\"B\"]\npayload = \"64 B\"\ninterval = \"1 ms\"\nschedule = \"time-triggered\"\n",
    ),
    (
        "schedule: a rate, no shaper",
        "interval = \"1 ms\"",
        "rate = \"1 Mbit/s\"\nshaper = \"off\"\nschedule = \"time-triggered\"",
    ),
    (
        "schedule: jitter of an unscheduled stream",
        "interval = \"1 ms\"",
        "interval = \"1 ms\"\njitter = \"1 us\"",
    ),
    (
        "schedule: no such frame",
        "[[host]]\nname = \"A\"",
        "[schedule]\nlargest-frame = \"1 MB\"\nbest-effort-share = 101\n[[host]]\nname = \"A\"",
    ),
];

fn shown(text: &str, overrides: &[(String, String)]) -> String {
    match read(text, "test.toml", overrides) {
        Ok(_) => "no fault was found".to_owned(),
        Err(faults) => faults.to_string(),
    }
}

fn set(key: &str, value: &str) -> Vec<(String, String)> {
    vec![(key.to_owned(), value.to_owned())]
}

#[test]
fn the_unspoiled_description_is_good() {
    read(GOOD, "test.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
}

#[test]
fn each_fault_has_its_message() {
    let mut all = String::new();
    for (name, from, to) in CASES {
        assert!(
            GOOD.contains(from),
            "{name}: the text to spoil is not there"
        );
        let text = shown(&GOOD.replacen(from, to, 1), &[]);
        assert!(text != "no fault was found", "{name}: no fault was found");
        writeln!(all, "== {name}\n{text}\n").unwrap();
    }
    for (name, key, value) in [
        ("--set of an unknown key", "shaping-intervall", "1ms"),
        ("--set of a wrong unit", "shaping-interval", "1 Mbit/s"),
        ("--set of zero", "shaping-interval", "0ms"),
        ("--set of nothing", "tick-error", ""),
    ] {
        let text = shown(GOOD, &set(key, value));
        assert!(text != "no fault was found", "{name}");
        writeln!(all, "== {name}\n{text}\n").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults.txt");
    if std::env::var_os("RTWIRE_UPDATE").is_some() {
        std::fs::write(&path, &all).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    for (ours, theirs) in all.split("== ").zip(committed.split("== ")) {
        assert_eq!(ours, theirs);
    }
    assert!(
        all == committed,
        "cases were added or removed: run with RTWIRE_UPDATE=1"
    );
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let bad = GOOD
        .replace("link-rate = \"100 Mbit/s\"", "link-rate = \"100 Mbps\"")
        .replace("talker = \"A\"", "talker = \"Z\"")
        .replace(
            "interval = \"1 ms\"",
            "interval = \"1 ns/s\"\ncolour = 3\npriority = 9",
        )
        .replace(
            "buffer = \"64 KiB\"\n[[switch]]",
            "buffer = \"64 KiB\"\nqueues = 0\n[[switch]]",
        );
    let faults = read(&bad, "test.toml", &set("tick-error", "soon")).unwrap_err();
    assert_eq!(faults.faults.len(), 7, "{faults}");
    let places: Vec<usize> = faults.faults.iter().map(|fault| fault.line).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn line_and_column_point_at_the_fault() {
    let faults = read(
        &GOOD.replace("ends = [\"s2\", \"B\"]", "ends = [\"s2\", \"Bé\"]"),
        "test.toml",
        &[],
    )
    .unwrap_err();
    let fault = &faults.faults[0];
    assert_eq!(
        (fault.line, fault.column, fault.width),
        (20, 15, 4),
        "{faults}"
    );
    assert_eq!(fault.excerpt, "ends = [\"s2\", \"Bé\"]");
}
