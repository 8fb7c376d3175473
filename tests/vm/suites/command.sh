# The `rtwire` command on a real-time kernel.

test_version() {
	expect 0 rtwire --version
	says "rtwire"
}

test_lab_on_one_machine() {
	expect 0 rtwire plan /lab/examples/five-nodes.toml
	says "A-to-B"
}

# lacking MODULE TEXT: a lab on a kernel without this module ends with 3, names what is missing, and leaves nothing.
lacking() {
	# All that a lab uses but this one, since nothing is loaded on demand from here on.
	modprobe -a veth bridge sch_htb sch_ingress cls_bpf
	rmmod "$1"
	helper=$(cat /proc/sys/kernel/modprobe)
	echo /none >/proc/sys/kernel/modprobe
	expect 3 rtwire lab /lab/examples/line.toml --duration 1s
	echo "$helper" >/proc/sys/kernel/modprobe
	says "$2"
	[ -z "$(ip netns list)" ] || fail "left behind: $(ip netns list)"
}

test_lab_without_veth_names_it() { lacking veth "veth pair"; }
test_lab_without_bridge_names_it() { lacking bridge "create bridge"; }
test_lab_without_htb_names_it() { lacking sch_htb "HTB queue"; }
test_lab_without_clsact_names_it() { lacking sch_ingress "sch_ingress"; }
test_lab_without_bpf_classifier_names_it() { lacking cls_bpf "cls_bpf"; }

# Two hosts and a cable; one stream is launched by the plan.
launched_network() {
	cat >/tmp/two.toml <<-TOML
		[network]
		name = "two hosts"
		[defaults]
		tick-error = "20 ms"
		link-rate = "1 Gbit/s"
		[[host]]
		name = "A"
		[[host]]
		name = "B"
		[[link]]
		ends = ["A", "B"]
		[[stream]]
		name = "there"
		talker = "A"
		listeners = ["B"]
		payload = "64 B"
		interval = "100 ms"
		priority = 3
	TOML
}

test_run_with_launch_times() {
	launched_network
	launch_pair
	# Without ETF there is nothing to keep the times: refused, by name, as something that the host lacks.
	expect 3 in_a rtwire run /tmp/two.toml --host A --interface ra --path launch --duration 1s
	says "sch_etf"
	says "number 1"
	# And no card here keeps those of AF_XDP; on a kernel that has none it is named.
	expect 3 in_a rtwire run /tmp/two.toml --host A --interface ra --path xdp-launch --duration 1s
	says "frames that go past the queue (AF_XDP)"
	says "Linux 6.15"
	etf 20000000
	in_b rtwire run /tmp/two.toml --host B --interface rb --duration 4s --json >/tmp/b.json &
	listener=$!
	# On this slow machine cycles come late and ETF refuses frames. The run says so, and is broken or inconclusive then.
	code=0
	output=$(in_a rtwire run /tmp/two.toml --host A --interface ra --path launch --duration 2s --json 2>&1) || code=$?
	case $code in 0 | 1 | 4) ;; *) fail "run ended with $code: $output" ;; esac
	says '"path": "launch"'
	sent=$(echo "$output" | sed -n 's/.*"frames_sent": \([0-9]*\).*/\1/p')
	wait $listener || true
	got=$(sed -n 's/.*"frames_received": \([0-9]*\).*/\1/p' /tmp/b.json)
	[ "$sent" -ge 5 ] || fail "$sent sent: $output"
	# What ETF could not send in time on this slow machine it has dropped.
	[ "$got" -ge 3 ] || fail "$got of $sent came: $(cat /tmp/b.json)"
}
