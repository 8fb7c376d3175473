# The kernel module `uman` (docs/uman.md). Raw sockets at the other end of the cable judge it, and the kernel's log.
. /lab/uman-lib.sh

test_it_is_made_by_ip_and_shown() {
	pair
	load
	ip -n vm-b link add link rb name uman0 type uman
	expect 0 in_b rtwire uman show
	says "uman0 above rb: mode qdisc, queue own, EtherTypes 0x88ab 0x88b5"
	expect 0 in_b rtwire uman set uman0 --mode direct --ethertypes 0x88ab,0x9000 --queue 3
	expect 0 in_b rtwire uman show uman0 --json
	says '"mode": "direct"'
	says '"0x9000"'
	grep -q "uman0: netns .*, lower rb in netns .*, mode direct, queue 3, ethertypes 0x88ab 0x9000, program none" \
		/sys/kernel/debug/uman/devices || fail "$(cat /sys/kernel/debug/uman/devices)"
	expect 0 in_b rtwire uman delete uman0
	expect 0 in_b rtwire uman show
	says "no uman devices"
	leave
}

test_what_cannot_be_is_refused_with_the_reason() {
	pair
	expect 3 in_b rtwire uman add uman0 --link rb
	says "Unknown device type"
	load
	expect 2 in_b rtwire uman add uman0 --link nowhere
	says "nowhere"
	expect 1 in_b rtwire uman add uman0 --link lo
	says "no Ethernet device"
	in_b rtwire uman add uman0 --link rb
	expect 1 in_b rtwire uman add uman1 --link rb
	says "receive handler already"
	expect 1 in_b rtwire uman add uman1 --link uman0
	says "uman device itself"
	expect 2 in_b rtwire uman set rb --mode direct
	says "there are uman0"
	expect 1 in_b rtwire uman set uman0 --ethertypes 0x8100
	says "none of a VLAN tag"
	expect 2 in_b ip link add link rb name uman9 address 01:00:00:00:00:01 type uman
	if realtime_kernel; then
		expect 1 in_b rtwire uman set uman0 --mode netpoll
		says "interrupts off"
	fi
	expect 0 in_b rtwire uman show uman0
	says "mode qdisc"
	leave
}

test_every_mode_on_veth() {
	above
	every_mode
	leave
}

answers_again() {
	in_a uman-test ask ra 5 1 2000000 >/tmp/asked
	[ "$(figure answered /tmp/asked)" = 1 ]
}

test_a_reply_goes_out_and_ends_with_its_lease() {
	above
	in_b rtwire uman set uman0 --mode direct
	started /tmp/reply b uman-test reply uman0 5 50 1
	replier=$started
	in_a uman-test ask ra 5 400 2000000 >/tmp/asked
	grep -q "asked=400 answered=400 torn=0 foreign=0" /tmp/asked || fail "$(cat /tmp/asked)"
	# Another node's number is not answered.
	in_a uman-test ask ra 6 3 2000000 >/tmp/asked
	is "answers for another node" "$(figure answered /tmp/asked)" 0
	for stop in 1 2; do
		# A program that hangs: 50 more answers at most, then none.
		kill -STOP $replier
		in_a uman-test ask ra 5 60 2000000 >/tmp/asked
		answered=$(figure answered /tmp/asked)
		[ "$answered" -le 50 ] && [ "$answered" -ge 40 ] || fail "$answered answers of a program that hangs; its lease is 50"
		# A guest that stalls may let it end in between, too.
		[ "$(counter replies_lease_ended)" -ge $stop ] || fail "the end $stop of the lease is not counted"
		# It comes back by itself when renewed.
		kill -CONT $replier
		soon answers_again || fail "it does not come back behind stop $stop"
		in_a uman-test ask ra 5 20 2000000 >/tmp/asked
		is "answers behind stop $stop" "$(figure answered /tmp/asked)" 20
	done
	kill -9 $replier
	wait $replier 2>/dev/null || true
	in_a uman-test ask ra 5 2 2000000 >/tmp/asked
	is "answers of a program that is gone" "$(figure answered /tmp/asked)" 0
	leave
}

test_cyclic_frames_keep_their_number_and_end_with_their_lease() {
	above
	in_b rtwire uman set uman0 --mode direct
	# A kernel with checks of its own needs some 4 ms for one frame.
	period=4000000
	patience=2000
	case $LAB_KERNEL in *-debug-*) period=40000000 patience=20000 ;; esac
	started /tmp/heard a uman-test listen ra 1000 $patience
	# 500 cycles, renewed in the first 300; a lease of 100.
	in_b uman-test cyclic uman0 $period 500 100 300 >/tmp/cyclic
	wait $started
	cat /tmp/cyclic /tmp/heard
	is "state (2: the lease has ended)" "$(figure state /tmp/cyclic)" 2
	sent=$(figure sent /tmp/cyclic)
	skipped=$(figure skipped /tmp/cyclic)
	# The renewal of a cycle comes in its middle; a guest that stalls loses cycles, which are counted.
	[ $((sent + skipped)) -ge 390 ] && [ $((sent + skipped)) -le 440 ] || fail "$sent sent and $skipped skipped; 401 are due"
	is "received" "$(figure received /tmp/heard)" "$sent"
	is "of two contents" "$(figure torn /tmp/heard)" 0
	is "confirmed" "$(figure confirmed /tmp/cyclic)" "$sent"
	is "counted" "$(counter cyclic_lease_ended)" 1
	leave
}

carries() { ! in_b ip link show uman0 | grep -q NO-CARRIER && in_b ip link show rb | grep -q LOWER_UP; }

test_what_may_not_leave_is_refused_and_counted() {
	above
	for mode in qdisc direct; do
		in_b rtwire uman set uman0 --mode $mode
		ip -n vm-b link set uman0 down
		before=$(counter tx_failed)
		is "written, down" "$(in_b uman-test write uman0 10)" "sent=0 failed=10"
		ip -n vm-b link set uman0 up
		# 200 bytes are more than an MTU of 150 permits.
		ip -n vm-b link set rb mtu 150
		is "written, too long" "$(in_b uman-test write uman0 10)" "sent=0 failed=10"
		is "counted" "$(counter tx_failed)" $((before + 20))
		ip -n vm-b link set rb mtu 1500
		ip -n vm-b link set uman0 mtu 1500
		# A lower device that is down has a discipline that drops each frame and calls that congestion.
		ip -n vm-b link set rb down
		before=$(counter tx_failed)
		is "written, lower device down, $mode" "$(in_b uman-test write uman0 10)" "sent=0 failed=10"
		is "counted, lower device down, $mode" "$(counter tx_failed)" $((before + 10))
		ip -n vm-b link set rb up
		soon carries || fail "no carrier: $(in_b ip link show uman0)"
	done
	above_is_alive
	leave
}

test_it_loads_and_leaves_under_traffic() {
	pair
	stamped
	in_a sh -c 'while :; do uman-test send ra 500; done' >/dev/null 2>&1 &
	traffic=$!
	for time in $(seq "${LAB_LOADS:-12}"); do
		load
		in_b rtwire uman add uman0 --link rb --mode $([ $((time % 2)) = 0 ] && echo direct || echo qdisc)
		ip -n vm-b link set uman0 up
		started /tmp/held b uman-test hold uman0
		kill -9 $started
		wait $started 2>/dev/null || true
		leave
	done
	kill $traffic
	! in_b ip link show uman0 >/dev/null 2>&1 || fail "uman0 is still there"
	# Nothing of it is left on the lower device.
	in_b ip -d link show rb | grep -q 'promiscuity 0' || fail "$(in_b ip -d link show rb)"
	in_a ping -q -c 1 -W 5 10.7.0.2
}

test_hostile_requests_do_no_harm() {
	above
	in_b rtwire uman set uman0 --mode direct
	stamped
	in_a sh -c 'while :; do uman-test send ra 500; uman-test ask ra 5 50 1000000; done' >/dev/null 2>&1 &
	traffic=$!
	echo "seed ${LAB_SEED:-1}"
	in_b timeout 300 uman-test hostile uman0 10000 "${LAB_SEED:-1}" >/tmp/hostile || fail "$(cat /tmp/hostile)"
	cat /tmp/hostile
	kill $traffic
	above_is_alive
	leave
}

test_what_is_in_use_is_refused_as_busy() {
	above
	in_b uman-test busy uman0 >/tmp/busy 2>&1 || fail "$(cat /tmp/busy)"
	leave
}

test_a_clock_that_is_set_does_not_end_a_cyclic_frame() {
	above
	in_b uman-test steps uman0 >/tmp/steps 2>&1 || fail "$(cat /tmp/steps)"
	cat /tmp/steps
	# 50 are due in each part; this guest may stall.
	for part in sent forward anew; do
		[ "$(figure $part /tmp/steps)" -ge 20 ] || fail "$part: $(cat /tmp/steps)"
	done
	# An hour forward is 360 000 instants, none of which counts; its lease of 200 has not ended.
	[ "$(figure skipped /tmp/steps)" -le 100 ] || fail "$(cat /tmp/steps)"
	is "state" "$(figure state /tmp/steps)" 1
	# Set back, it is silent.
	[ "$(figure back /tmp/steps)" -le 1 ] || fail "$(cat /tmp/steps)"
	leave
}

test_requests_and_mappings_do_not_wait_for_one_another() {
	above
	in_b timeout -s KILL 60 uman-test race uman0 3000 >/tmp/race 2>&1 || fail "$(cat /tmp/race)"
	least=100
	case $LAB_KERNEL in *-debug-*) least=5 ;; esac
	[ "$(figure requests /tmp/race)" -ge $least ] || fail "$(cat /tmp/race)"
	above_is_alive
	leave
}
