# `rtwire doctor` finds faults that ordinary kernels and veth cannot have: disciplines that are missing, a real card's settings,
# the scheduler's throttle, and finds them gone when they are.

# ids INTERFACE [LEVELS]: what doctor says at these levels, one finding a line.
ids() {
	in_a rtwire doctor "$1" --json >/tmp/doctor.json 2>/tmp/doctor.error || [ $? = 1 ] || fail "doctor: $(cat /tmp/doctor.error)"
	awk -F'"' -v levels=" ${2:-weak fault} " '
		$2 == "id" { id = $4 }
		$2 == "level" && index(levels, " " $4 " ") { print id }' /tmp/doctor.json
}

# planted ID INTERFACE COMMAND REMEDY [LEVELS]: found after the one, not before and not after the other.
planted() {
	! ids "$2" "${5:-}" | grep -qx "$1" || fail "$1 is found before it is planted"
	eval "$3"
	ids "$2" "${5:-}" | grep -qx "$1" || fail "\`$3\`: $1 is not among: $(ids "$2" "${5:-}" | tr '\n' ' ')"
	eval "$4"
	! ids "$2" "${5:-}" | grep -qx "$1" || fail "$1 is found after \`$4\`"
}

# without MODULE…: kernels that lack these; nothing is loaded on demand until it ends.
without() {
	modprobe -a sch_mqprio sch_etf sch_taprio sch_cbs sch_tbf sch_htb 8021q
	helper=$(cat /proc/sys/kernel/modprobe)
	echo /none >/proc/sys/kernel/modprobe
	rmmod "$@"
}

lacking() { # ID MODULE…
	id=$1
	shift
	modprobe -a sch_mqprio sch_etf sch_taprio sch_cbs sch_tbf sch_htb 8021q
	! ids ra note | grep -qx "$id" || fail "$id although there is one"
	without "$@"
	found=$(ids ra note)
	echo "$helper" >/proc/sys/kernel/modprobe
	grep -qx "$id" <<<"$found" || fail "$id is not among: $found"
	grep -A9 "\"$id\"" /tmp/doctor.json | grep -q CONFIG_ || fail "no way to get it: $(grep -A9 "$id" /tmp/doctor.json)"
}

test_missing_launch_times() { pair && lacking queues.no_etf sch_etf; }
test_missing_gates() { pair && lacking queues.no_taprio sch_taprio; }
test_missing_classes() { pair && lacking queues.no_mqprio sch_mqprio; }
test_missing_credit_shaping() { pair && lacking queues.no_cbs sch_cbs; }
test_missing_vlans() { pair && lacking queues.no_vlan 8021q; }

test_coalescing_of_a_real_card() {
	nic_pair
	in_a ethtool -C ra rx-usecs 0
	planted driver.coalescing ra "in_a ethtool -C ra rx-usecs 100" "in_a ethtool -C ra rx-usecs 0"
}

test_pause_frames_of_a_real_card() {
	nic_pair
	in_a ethtool -A ra autoneg off rx off tx off
	planted driver.pause ra "in_a ethtool -A ra rx on tx on" "in_a ethtool -A ra rx off tx off"
}

test_a_long_ring_of_a_real_card() {
	nic_pair
	in_a ethtool -G ra tx 256
	planted driver.long_ring ra "in_a ethtool -G ra tx 4096" "in_a ethtool -G ra tx 256" note
}

# This card's cannot be switched off; a veth has none.
test_vlan_filter_of_a_real_card() {
	nic_pair
	ids ra note | grep -qx driver.vlan_filter || fail "not found: $(in_a ethtool -k ra | grep vlan)"
	clean_up
	pair
	! ids ra note | grep -qx driver.vlan_filter || fail "found on a veth: $(in_a ethtool -k ra | grep vlan)"
}

test_splitting_of_a_real_card() {
	nic_pair
	in_a ethtool -K ra tso off gso off
	planted driver.splitting ra "in_a ethtool -K ra gso on" "in_a ethtool -K ra gso off"
}

test_fix_of_a_real_card_is_taken_back() {
	nic_pair
	in_a ethtool -C ra rx-usecs 100
	in_a ethtool -c ra >/tmp/before
	in_a ethtool -k ra >>/tmp/before
	ids ra | grep -qx driver.coalescing || fail "coalescing is not found"
	in_a rtwire doctor ra --fix >/dev/null || [ $? = 1 ] || fail "doctor --fix ended otherwise"
	! ids ra | grep -qx driver.coalescing || fail "still: $(in_a ethtool -c ra)"
	expect 0 in_a rtwire revert
	in_a ethtool -c ra >/tmp/after
	in_a ethtool -k ra >>/tmp/after
	cmp /tmp/before /tmp/after || fail "not as before: $(diff /tmp/before /tmp/after)"
}

test_throttled_real_time_threads() {
	pair
	sysctl -qw kernel.sched_rt_runtime_us=-1
	planted kernel.rt_throttling ra "sysctl -qw kernel.sched_rt_runtime_us=950000" "sysctl -qw kernel.sched_rt_runtime_us=-1"
}

test_a_slow_clock() {
	pair
	clock=/sys/devices/system/clocksource/clocksource0
	grep -q acpi_pm $clock/available_clocksource || fail "this guest has no slow clock: $(cat $clock/available_clocksource)"
	now=$(cat $clock/current_clocksource)
	planted kernel.clock_source ra "echo acpi_pm >$clock/current_clocksource" "echo $now >$clock/current_clocksource"
}

test_a_discipline_of_somebody_else() {
	pair
	planted queues.in_force ra "in_a tc qdisc add dev ra root netem delay 1ms" "in_a tc qdisc del dev ra root"
}

test_a_real_time_kernel_is_none() {
	pair
	ids ra good | grep -qx kernel.preemption || fail "PREEMPT_RT is not seen: $(grep -A3 kernel.preemption /tmp/doctor.json)"
	ids ra good | grep -qx kernel.threaded_interrupts || fail "threaded interrupts are not seen"
}
