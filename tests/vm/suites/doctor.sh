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

# What the kernel itself does beside the network. The event is a rare one: recording begins by a change of the kernel's code.
test_work_of_the_kernel() {
	pair
	# A guest without counters for it refuses the second one.
	sysctl -qw kernel.watchdog=0
	sysctl -qw kernel.nmi_watchdog=0 2>/dev/null || true
	planted kernel.watchdog ra "sysctl -qw kernel.watchdog=1" "sysctl -qw kernel.watchdog=0"
	event=/sys/kernel/tracing/events/printk/console/enable
	planted kernel.tracing ra "echo 1 >$event" "echo 0 >$event"
	echo 1 >/proc/sys/kernel/printk
	planted kernel.serial_console ra "echo 7 >/proc/sys/kernel/printk" "echo 1 >/proc/sys/kernel/printk"
}

test_small_buffers() {
	pair
	planted limits.backlog ra "sysctl -qw net.core.netdev_max_backlog=10" "sysctl -qw net.core.netdev_max_backlog=1000"
	planted limits.socket_buffers ra "sysctl -qw net.core.wmem_default=4608" "sysctl -qw net.core.wmem_default=212992"
}

test_groups_and_affinity() {
	pair
	groups=/sys/fs/cgroup
	mount -t cgroup2 none $groups
	echo "+cpu +cpuset" >$groups/cgroup.subtree_control
	mkdir -p $groups/lab
	echo $$ >$groups/lab/cgroup.procs
	planted processors.quota ra "echo '50000 100000' >$groups/lab/cpu.max" "echo max >$groups/lab/cpu.max"
	planted processors.cpuset ra "echo 0 >$groups/lab/cpuset.cpus" "echo 0-1 >$groups/lab/cpuset.cpus"
	planted processors.affinity ra "taskset -p 1 $$" "taskset -p 3 $$"
	echo $$ >$groups/cgroup.procs
	rmdir $groups/lab
	umount $groups
}

test_threads_of_a_real_card_without_priority() {
	nic_pair
	threads=$(ps | sed -n 's/^ *\([0-9]*\) .*\[irq\/[0-9]*-ra.*/\1/p')
	[ -n "$threads" ] || fail "no threads: $(ps)"
	first=${threads%%$'\n'*}
	planted interrupts.thread_priority ra "chrt -o -p 0 $first" "chrt -f -p 50 $first"
	napi() { in_a sh -c "echo $1 >/sys/class/net/ra/threaded"; }
	planted interrupts.polling_priority ra "napi 1" "napi 0"
}

test_a_short_ring_of_a_real_card() {
	nic_pair
	in_a ethtool -G ra rx 256
	planted driver.short_ring ra "in_a ethtool -G ra rx 64" "in_a ethtool -G ra rx 256"
}

test_a_vlan_link_without_priorities() {
	pair
	planted interface.vlan_priorities ra "in_a ip link add link ra name ra.5 type vlan id 5" \
		"in_a ip link set ra.5 type vlan egress-qos-map 7:7"
}

test_queues_without_a_plan() {
	pair
	planted queues.unplanned ra "in_a tc qdisc add dev ra root etf clockid CLOCK_TAI delta 200000" "in_a tc qdisc del dev ra root"
}
