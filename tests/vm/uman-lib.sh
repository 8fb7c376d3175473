# What the suites of the kernel module `uman` use. Sourced behind lib.sh.

# load: without what a failed test has left.
load() {
	rmmod uman 2>/dev/null || true
	insmod /lab/modules/uman.ko "$@"
}

# above [CABLE…]: a cable (`pair`, `nic_pair`, `nic_pair virtio`), the module, and uman0 above rb in vm-b.
above() {
	if [ $# = 0 ]; then pair; else "$@"; fi
	load
	in_b rtwire uman add uman0 --link rb
	ip -n vm-b link set uman0 up
}

# leave: the module goes while devices are there.
leave() { rmmod uman || fail "the module does not go: $(cat /sys/kernel/debug/uman/devices)"; }

# realtime_kernel: PREEMPT_RT. /sys/kernel/realtime came with the patches and did not follow into the kernel itself.
realtime_kernel() { grep -q PREEMPT_RT /proc/sys/kernel/version; }

# soon COMMAND…: waits until it succeeds; false behind 400 attempts.
soon() {
	for _ in $(seq 400); do
		! "$@" || return 0
		sleep 0.05
	done
	return 1
}

# counter NAME [DEVICE]: one of the device's counters.
counter() { in_b ethtool -S "${2:-uman0}" | awk -v name="$1:" '$1 == name { print $2 }'; }

# started FILE END COMMAND…: runs it in namespace vm-END in the background until it has said something; its id, not that of a
# shell around it, in $started.
started() {
	file=$1
	end=$2
	shift 2
	rm -f "$file"
	ip netns exec "vm-$end" "$@" >"$file" 2>&1 &
	started=$!
	for _ in $(seq 400); do
		[ ! -s "$file" ] || return 0
		kill -0 $started 2>/dev/null || break
		sleep 0.05
	done
	fail "\`$*\` has not begun: $(cat "$file")"
}

# stamped: a socket in vm-a that wants times of arrival, until the end. Without one each socket that comes and goes has the kernel patch
# its receive path, which the emulator's other core may miss: `Oops: int3` (docs/kernel-lab.md).
stamped() { started /tmp/stamped a uman-test raw-reply lo 5; }

# figure NAME FILE: a NAME=number of a program's report.
figure() { tr ' ' '\n' <"$2" | sed -n "s/^$1=//p" | head -n 1; }

is() { # WHAT FOUND WANTED
	[ "$2" = "$3" ] || fail "$1: $2 instead of $3"
}

# every_mode: uman0 sends in each mode that its driver and kernel have, and receives; all else passes it by.
every_mode() {
	# Real cards drop frames that are for other addresses: the filters are opened, the device's own through its lower one.
	in_a ip link set ra promisc on
	in_b ip link set uman0 promisc on
	for mode in qdisc direct netpoll; do
		code=0
		in_b rtwire uman set uman0 --mode $mode >/tmp/refused 2>&1 || code=$?
		if [ $code != 0 ]; then
			is "$mode refused" "$mode" netpoll
			if realtime_kernel; then
				reason="interrupts off"
			else
				# Drivers without it came later (veth: 6.12).
				case $LAB_KERNEL in 6.1.*) fail "netpoll refused on $LAB_KERNEL: $(cat /tmp/refused)" ;; esac
				reason="driver refuses netpoll"
			fi
			grep -q "$reason" /tmp/refused || fail "$(cat /tmp/refused)"
			echo "@@ note $mode: $(cat /tmp/refused)"
			continue
		fi
		started /tmp/heard a uman-test listen ra 200 3000
		in_b uman-test send uman0 200 >/tmp/sent
		wait $started
		is "$mode: sent" "$(cat /tmp/sent)" "sent=200 failed=0"
		is "$mode: received" "$(cat /tmp/heard)" "listening
received=200 torn=0 repeated=0"
		[ "$(counter tx_$mode)" -ge 200 ] || fail "$mode is not counted: $(in_b ethtool -S uman0)"
		started /tmp/heard a uman-test listen ra 100 3000
		in_b uman-test write uman0 100 >/tmp/sent
		wait $started
		is "$mode: received of write()" "$(figure received /tmp/heard)" 100
	done
	started /tmp/heard b uman-test listen uman0 200 3000
	in_a uman-test send ra 200
	wait $started
	is "received" "$(figure received /tmp/heard)" 200
	is "taken" "$(($(counter rx_taken) >= 200))" 1
	# What the device does not take goes to Linux.
	in_a ping -q -c 3 -W 5 10.7.0.2 || fail "IPv4 does not pass"
	[ "$(counter rx_passed)" -ge 3 ] || fail "not counted as passed"
}

above_is_alive() {
	started /tmp/alive a uman-test listen ra 20 3000
	in_b uman-test send uman0 20 >/tmp/sent
	wait $started
	is "frames behind it" "$(figure received /tmp/alive)" 20
}
