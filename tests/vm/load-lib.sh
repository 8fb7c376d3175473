# A load for measurements: sourced by others.

# loads: namespaces vm-c and vm-d with a cable of their own: the load shares the processor, not the cable.
loads() {
	ip netns add vm-c
	ip netns add vm-d
	ip -n vm-c link add lc type veth peer name ld netns vm-d
	for end in c:1 d:2; do
		ip -n vm-${end%:*} addr add 10.8.0.${end#*:}/24 dev l${end%:*}
		ip -n vm-${end%:*} link set l${end%:*} up
	done
}

# busy: the source's load, hackbench (ten processes that send to ten others), and a flood of datagrams through the same kernel.
busy() {
	ip netns exec vm-c hackbench --groups 1 --fds 10 --loops 1000000000 >/tmp/hackbench 2>&1 &
	ip netns exec vm-c bash -c 'exec 3>/dev/udp/10.8.0.2/9; text=$(printf "%0500d" 0); while :; do printf %s "$text" >&3; done' 2>/dev/null &
	for _ in $(seq 200); do
		[ "$(hackbenches)" -lt 20 ] || return 0
		sleep 0.05
	done
	fail "hackbench has not begun: $(cat /tmp/hackbench)"
}

# hackbenches: how many of its processes there are.
hackbenches() { for process in $(ip netns pids vm-c); do cat "/proc/$process/comm"; done | grep -c hackbench || true; }

# idle_again: ends the load, which must not have ended by itself.
idle_again() {
	there=$(hackbenches)
	for process in $(ip netns pids vm-c); do kill -9 "$process" 2>/dev/null || true; done
	[ "$there" -ge 20 ] || fail "hackbench has ended: $(cat /tmp/hackbench)"
}

unload() {
	for end in c d; do ip netns del vm-$end; done
}
