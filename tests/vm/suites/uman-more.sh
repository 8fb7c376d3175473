# The kernel module `uman` on other drivers, and what happens around it. `make test` runs one of these tests (CONTRIBUTING.md).
. /lab/uman-lib.sh

test_every_mode_on_e1000e() {
	above nic_pair
	every_mode
	leave
}

test_every_mode_on_virtio() {
	above nic_pair virtio
	every_mode
	leave
}

test_frames_of_every_length() {
	above
	in_b rtwire uman set uman0 --mode direct
	in_b uman-test send uman0 4000 0 2000 >/tmp/sent
	in_a uman-test send ra 4000 0 2000 >/tmp/sent
	above_is_alive
	leave
}

test_a_reply_is_never_of_two_contents() {
	above
	started /tmp/reply b uman-test reply uman0 5 1000 1 changing
	in_a uman-test ask ra 5 2000 300000 >/tmp/asked
	is "replies of two contents" "$(figure torn /tmp/asked)" 0
	# Two processors: the writer may outrun the reader, who then sends nothing, but not always.
	[ "$(figure answered /tmp/asked)" -ge 1000 ] || fail "$(cat /tmp/asked)"
	kill -9 $started
	wait $started 2>/dev/null || true
	leave
}

test_the_ring_and_the_newest_value_agree() {
	above
	started /tmp/taken b uman-test take uman0 2000 3000
	in_a uman-test send ra 2000
	wait $started
	cat /tmp/taken
	lost=$(figure lost /tmp/taken)
	is "taken and lost" "$(($(figure taken /tmp/taken) + lost))" 2000
	is "of two contents" "$(figure torn /tmp/taken)" 0
	[ "$lost" != 0 ] || is "gaps" "$(figure gaps /tmp/taken)" 0
	is "newest" "$(figure newest /tmp/taken)" 1999
	leave
}

test_addresses_filters_and_tags_reach_the_lower_device() {
	above
	in_b ip maddr add 01:11:1e:00:00:01 dev uman0
	in_b ip maddr show dev rb | grep -q 01:11:1e:00:00:01 || fail "$(in_b ip maddr show dev rb)"
	in_b ip link set uman0 promisc on
	in_b ip -d link show rb | grep -q 'promiscuity 1' || fail "$(in_b ip -d link show rb)"
	in_b ip link set uman0 promisc off
	in_b ip -d link show rb | grep -q 'promiscuity 0' || fail "$(in_b ip -d link show rb)"
	in_b ip link set uman0 down
	! in_b ip maddr show dev rb | grep -q 01:11:1e:00:00:01 || fail "a filter is left"
	in_b ip link set uman0 up
	# Tagged frames, through a VLAN device above it.
	in_b ip link add link uman0 name u5 type vlan id 5
	in_b ip link set u5 up
	in_a ip link add link ra name ra5 type vlan id 5
	in_a ip link set ra5 up
	for mode in qdisc direct; do
		in_b rtwire uman set uman0 --mode $mode
		started /tmp/heard a uman-test listen ra5 50 3000
		in_b uman-test send u5 50
		wait $started
		is "tagged, $mode" "$(figure received /tmp/heard)" 50
	done
	started /tmp/heard b uman-test listen u5 50 3000
	in_a uman-test send ra5 50
	wait $started
	is "tagged, received" "$(figure received /tmp/heard)" 50
	# A tagged question gets a tagged answer.
	started /tmp/reply b uman-test reply uman0 5 50 1
	in_a uman-test ask ra5 5 20 2000000 >/tmp/asked
	is "tagged questions answered" "$(figure answered /tmp/asked)" 20
	kill -9 $started
	wait $started 2>/dev/null || true
	leave
}

test_two_devices_do_not_disturb_each_other() {
	above
	in_a rtwire uman add uman1 --link ra --mode direct
	in_a ip link set uman1 up
	started /tmp/reply b uman-test reply uman0 5 50 1
	replier=$started
	started /tmp/heard b uman-test listen uman0 300 3000
	in_a uman-test cyclic uman1 10000000 100 20 50 >/tmp/cyclic
	in_a uman-test ask uman1 5 100 2000000 >/tmp/asked
	kill -9 $replier
	wait $started
	is "answers" "$(figure answered /tmp/asked)" 100
	is "cyclic frames" "$(figure received /tmp/heard)" "$(figure sent /tmp/cyclic)"
	is "devices" "$(grep -c '^uman' /sys/kernel/debug/uman/devices)" 2
	# A device in a namespace of its own, away from the lower one.
	ip netns add vm-c
	ip -n vm-b link set uman0 netns vm-c
	ip -n vm-c link set uman0 up
	started /tmp/heard c uman-test listen uman0 20 3000
	in_a uman-test send uman1 20
	wait $started
	ip netns del vm-c
	is "received in a namespace of its own" "$(figure received /tmp/heard)" 20
	leave
}

no_carrier() { in_b ip link show uman0 | grep -q NO-CARRIER; }

carrier() { ! no_carrier; }

test_it_lives_with_what_happens_to_the_lower_device() {
	above
	stamped
	in_a sh -c 'while :; do uman-test send ra 500; done' >/dev/null 2>&1 &
	traffic=$!
	started /tmp/held b uman-test hold uman0
	holder=$started
	for mode in direct qdisc; do
		in_b rtwire uman set uman0 --mode $mode
		for _ in 1 2 3; do
			ip -n vm-b link set rb down
			soon no_carrier || fail "the carrier stays: $(in_b ip link show uman0)"
			ip -n vm-b link set rb up
			soon carrier || fail "the carrier stays away: $(in_b ip link show uman0)"
		done
	done
	# Renamed, moved and back: it stays above it.
	ip -n vm-b link set rb down
	ip -n vm-b link set rb name rc
	ip -n vm-b link set rc up
	expect 0 in_b rtwire uman show
	says "uman0 above rc"
	ip netns add vm-c
	ip -n vm-b link set rc netns vm-c
	ip -n vm-c link set rc up
	expect 0 in_b rtwire uman show
	says "of another namespace"
	before=$(counter rx_taken)
	for _ in $(seq 100); do [ "$(counter rx_taken)" = "$before" ] || break; sleep 0.05; done
	[ "$(counter rx_taken)" != "$before" ] || fail "nothing arrives from the namespace"
	# Removed: the device goes with it, the program is told.
	ip -n vm-c link del rc
	! in_b ip link show uman0 >/dev/null 2>&1 || fail "uman0 is still there"
	wait $holder || fail "$(cat /tmp/held)"
	grep -q "gone state=3" /tmp/held || fail "$(cat /tmp/held)"
	kill $traffic
	ip netns del vm-c
	leave
}
