# `rtwire apply` with the disciplines that ordinary kernels lack: what is asked for is in force and reads back equal, and
# `rtwire revert` leaves everything byte for byte as it was.

# What one test leaves recorded is not another's: interfaces of both have the same names.
RTWIRE_STATE_DIRECTORY=$(mktemp -d)
export RTWIRE_STATE_DIRECTORY

# network GATES SCHEDULE: plan.toml from the fixture of the tests outside of the lab, with keys for its nodes and its first stream.
network() {
	while IFS= read -r line; do
		case $line in
		'#gates') echo "$1" ;;
		'#schedule') echo "$2" ;;
		*) echo "$line" ;;
		esac
	done </lab/suites/two-hosts.toml >plan.toml
}

# All that a person sees of the interface, and of what hangs on it, in one program: starting one takes long here.
looks() {
	# A real card is without carrier for a moment after its offloads are changed, and flags and state of a link follow its
	# carrier one after the other: both are to be up, and to stay so.
	local up=0
	for _ in $(seq 80); do
		if in_a ip link show ra | grep -q "LOWER_UP.*state UP"; then up=$((up + 1)); else up=0; fi
		[ $up -lt 3 ] || break
		sleep 0.1
	done
	in_a bash -c '
		ip -d link
		ip address show dev ra
		ip route
		tc qdisc show dev ra
		tc class show dev ra
		tc filter show dev ra
		for what in k l c g a; do ethtool -$what ra; done
		ethtool --show-eee ra
		grep -r . /proc/sys/net/ipv[46]/conf /proc/sys/net/ipv[46]/neigh
	' 2>&1 || true
}

apply() { in_a rtwire apply plan.toml --host A --interface ra "$@"; }

round() { # what is applied differs, what is reverted does not
	looks >before
	expect 0 apply --no-sync "$@"
	says "read back"
	in_a tc qdisc show dev ra
	looks >applied
	expect 0 apply --no-sync "$@"
	says "as planned already"
	expect 0 in_a rtwire revert ra
	looks >after
	cmp before after || {
		diff before after || true
		fail "not as before"
	}
	! cmp -s before applied || fail "nothing was applied"
}

test_mqprio_with_limited_best_effort() {
	network "" ""
	pair 4
	round
	expect 0 apply --no-sync
	expect 0 in_a tc qdisc show dev ra
	says "qdisc mqprio 1: root tc 4 map 0 0 1 1 2 2 3 3"
	says "queues:(0:0) (1:1) (2:2) (3:3)"
	says "qdisc tbf 10: parent 1:1 rate"
}

test_vlan_links_carry_the_priority() {
	network "" ""
	pair 4
	expect 0 apply --no-sync
	index=$(in_a cat /sys/class/net/ra/ifindex 2>/dev/null || in_a ip -o link show ra | cut -d: -f1)
	expect 0 in_a ip -d link show "rtw${index}v5"
	says "vlan protocol 802.1Q id 5"
	says "7:7"
	# What a socket of priority 7 sends has PCP 7 on the wire; what has no priority has none.
	in_b tc qdisc add dev rb clsact
	for pcp in 7 0; do
		in_b tc filter add dev rb ingress protocol 802.1Q pref $((pcp + 1)) flower vlan_id 5 vlan_prio $pcp action pass
	done
	in_a tc qdisc add dev "rtw${index}v5" clsact
	in_a ip address add 10.9.0.1/24 dev "rtw${index}v5"
	in_a ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev "rtw${index}v5" nud permanent
	seen() { in_b tc -s filter show dev rb ingress pref "$1" | sed -n 's/.*Sent [0-9]* bytes \([0-9]*\) pkt.*/\1/p' | head -n 1; }
	in_a ping -c 2 -i 0.2 -W 1 10.9.0.2 >/dev/null 2>&1 || true
	[ "$(seen 1)" != 0 ] || fail "nothing without priority: $(in_b tc -s filter show dev rb ingress)"
	[ "$(seen 8)" = 0 ] || fail "PCP 7 before it was asked for"
	in_a tc filter replace dev "rtw${index}v5" egress protocol all pref 1 matchall action skbedit priority 7
	in_a ping -c 2 -i 0.2 -W 1 10.9.0.2 >/dev/null 2>&1 || true
	[ "$(seen 8)" != 0 ] || fail "no PCP 7 on the wire: $(in_b tc -s filter show dev rb ingress)"
	expect 0 in_a rtwire revert ra
	expect 1 in_a ip link show "rtw${index}v5"
}

test_gates_in_the_kernel() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair 4
	round
	expect 0 apply --no-sync
	expect 0 in_a tc qdisc show dev ra
	says "taprio"
	says "cycle-time 1000000"
	sum=$(in_a tc qdisc show dev ra | sed -n 's/.*interval \([0-9]*\).*/\1/p' | awk '{ s += $1 } END { print s }')
	[ "$sum" = 1000000 ] || fail "the gates are open for $sum of 1000000 ns"
}

test_gates_with_launch_times() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair 4
	round --queues taprio-assist
}

test_launch_times() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair 4
	round --queues etf --etf-delta 150000
	expect 0 apply --no-sync --queues etf --etf-delta 150000
	expect 0 in_a tc qdisc show dev ra
	says "clockid TAI delta 150000"
}

test_gates_in_hardware_are_refused_and_nothing_is_changed() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair 4
	looks >before
	expect 3 apply --no-sync --queues taprio-hardware
	says "nothing is changed"
	looks >after
	cmp before after || fail "not as before"
}

test_one_queue_has_no_gates() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair
	looks >before
	expect 3 apply --no-sync
	says "4 transmit queues"
	says "cannot be promised any more: the windows, delay and jitter of fast"
	looks >after
	cmp before after || fail "not as before"
	expect 0 apply --no-sync --fallback
	expect 0 in_a tc qdisc show dev ra
	says "htb"
}

test_a_real_card() {
	network "" ""
	nic_pair
	round
}

test_gates_without_a_common_time_are_refused() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair 4
	expect 3 apply
	says "the network's time"
	says "--no-sync"
	expect 0 apply --no-sync
	says "NOT SYNCHRONISED"
}
