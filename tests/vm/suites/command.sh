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
