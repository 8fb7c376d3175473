# The OSADL experiment by the product: four descriptions, each planned, applied, run, judged and reverted, beside best effort of
# iperf3. In virtual time: an emulator in real time stalls for longer than any promise here.

# What other tests leave recorded is not ours: interfaces have the same names.
RTWIRE_STATE_DIRECTORY=$(mktemp -d)
export RTWIRE_STATE_DIRECTORY

# Transmission of a full frame, ns.
FRAME=123040

# wire: hosts A and B of eight queues, on a link of 100 Mbit/s each way. A veth has no rate, and the hosts' own queues are
# `rtwire apply`'s: so a bridge between them sends at that rate, first in first out. As in the lab's links, it may catch up
# timers that were late by up to 250 us, at no more than 120 Mbit/s.
wire() {
	for end in a b w; do
		ip netns add vm-$end
		ip netns exec vm-$end sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1 2>/dev/null || true
	done
	ip -n vm-w link add cable type bridge
	ip -n vm-w link set cable up
	for end in a b; do
		ip -n vm-$end link add r$end numtxqueues 8 numrxqueues 8 type veth peer name w$end netns vm-w
		ip -n vm-w link set w$end master cable
		ip -n vm-w link set w$end up
		tc -n vm-w qdisc add dev w$end root handle 1: htb default 1
		tc -n vm-w class add dev w$end parent 1: classid 1:1 htb rate 100mbit burst 3125 ceil 120mbit cburst 1 overhead 24 quantum 1600
		tc -n vm-w qdisc add dev w$end parent 1:1 pfifo limit 1000
	done
	cable vm-a ra 1 2
	cable vm-b rb 2 1
	# The cable is soft interrupts on the hosts' one processor. A real one takes no turn behind the hosts' threads.
	for thread in $(ps | sed -n 's/^ *\([0-9]*\) .*\[\(ksoftirqd\|ktimers\|ktimersd\)\/.*/\1/p'); do chrt -f -p 85 "$thread"; done
}

no_wire() {
	clean_up
	ip netns del vm-w 2>/dev/null || true
}

# seen END: what a person sees of that host's interface.
seen() {
	in_"$1" bash -c "ip -d link show dev r$1; ip address show dev r$1; ip route
		for what in qdisc class filter; do tc \$what show dev r$1; done; ethtool -k r$1"
}

# as_before END: what was applied is taken back. Flags and state of a link follow its carrier one after the other.
as_before() {
	for _ in $(seq 50); do
		seen "$1" >/tmp/after-"$1"
		cmp -s /tmp/before-"$1" /tmp/after-"$1" && return
		sleep 0.1
	done
	fail "not as before: $(diff /tmp/before-"$1" /tmp/after-"$1")"
}

# best_effort END ADDRESS: bursts of sixteen full frames, by another process than the streams'. 19 Mbit/s of user data are
# 19.5 Mbit/s of frames: within the allowance.
best_effort() {
	in_"$1" iperf3 -c "$2" -u -l 1472 -b 19M/16 -t $((seconds + 8)) >/tmp/iperf-"$1" 2>&1 &
}

# streams END HOST PEER: that host's streams, and their evidence.
streams() {
	in_"$1" timeout -s KILL 60 rtwire run /tmp/plan.json --host "$2" --interface r"$1" --peer "$3" --no-sync --spin-margin 0s \
		--duration ${seconds}s --evidence /tmp/"$1".evidence >/tmp/run-"$1" 2>&1 || [ $? != 137 ] || echo "run of $2 does not end"
}

# delay STREAM FIGURE: from the report of `rtwire judge`, ns.
delay() {
	awk -v stream="\"$1\"," -v figure="\"$2\":" '
		$1 == "\"name\":" { mine = $2 == stream }
		mine && $1 == "\"network_delay_ns\":" { within = 1 }
		within && $1 == figure { gsub(/[^0-9]/, "", $2); print $2; exit }' /tmp/judged.json
}

# larger FIGURE: that figure of the stream for which it is larger, ns.
larger() {
	for stream in question answer; do delay $stream "$1"; done | sort -n | tail -n 1
}

# set_up FILE CODE ARGUMENTS-OF-APPLY…: the whole way of one description, to a verdict of that code. $p50, $p99 and $max are the
# larger ones of both streams.
set_up() {
	file=$1 wanted_verdict=$2
	shift 2
	seconds=2
	[ "$LAB_MODE" = measure ] || seconds=10
	no_wire
	wire
	expect 0 rtwire plan /lab/examples/osadl/"$file".toml --output /tmp/plan.json
	for end in a b; do
		seen $end >/tmp/before-$end
		expect 0 in_$end rtwire apply /tmp/plan.json --host "$(echo $end | tr ab AB)" --interface r$end --no-sync "$@"
		in_$end iperf3 -s -1 >/tmp/server-$end 2>&1 &
	done
	sleep 0.5
	best_effort a 10.7.0.2
	best_effort b 10.7.0.1
	sleep 1
	streams b B A=10.7.0.1 &
	other=$!
	streams a A B=10.7.0.2
	wait $other
	judged=0
	rtwire judge /tmp/plan.json /tmp/a.evidence /tmp/b.evidence --json >/tmp/judged.json 2>&1 || judged=$?
	[ "$judged" = "$wanted_verdict" ] || {
		rtwire judge /tmp/plan.json /tmp/a.evidence /tmp/b.evidence | head -n 40 || true
		fail "$file: judge ended with $judged instead of $wanted_verdict: $(cat /tmp/run-a /tmp/run-b)"
	}
	# Best effort was there: some 1700 frames a second.
	sent=$(tc -n vm-w -s qdisc show dev wb | sed -n 's/^ Sent \([0-9]*\) bytes.*/\1/p' | head -n 1)
	[ "$sent" -gt $((seconds * 2000000)) ] || fail "$file: only $sent bytes on the cable: $(cat /tmp/iperf-a)"
	p50=$(larger p50) p99=$(larger p99) max=$(larger max)
	for end in a b; do
		expect 0 in_$end rtwire revert r$end
		as_before $end
	done
	echo "@@ note $file $*: judge ended with $judged; larger delay of both streams: p50 $p50, p99 $p99, slowest $max ns"
}

# figures NAME: those of the last set-up, for the baseline.
figures() {
	for stream in question answer; do
		for figure in min p50 p99 max; do
			value "osadl_product/load/$1/$stream/$figure" "$(delay $stream $figure)" ns
		done
	done
}

test_four_set_ups() {
	trap no_wire EXIT
	# Eight queues, so that `apply` takes mqprio: one queue, first in first out, for the streams and best effort.
	set_up 1-no-priority 0
	figures no_priority
	none=$max
	# HTB keeps order and rate by itself. mqprio leaves both to the card, and a veth keeps neither.
	set_up 2-vlan-priority 0 --queues htb
	figures vlan_priority
	priority=$max priority_p99=$p99
	set_up 3-limited 0 --queues htb
	figures limited
	limited_p99=$p99
	set_up 4-launch-times 0
	figures launch_times
	launch=$max spread=$((max - p50))
	# As theory says: a burst in the way, one frame, the same more seldom, nothing.
	[ "$none" -gt $((8 * FRAME)) ] || fail "without priority a burst is in the way: $none ns"
	[ "$none" -gt $((2 * priority)) ] || fail "priority halves the slowest delay at least: $none, $priority ns"
	[ "$limited_p99" -le $((priority_p99 + FRAME / 10)) ] || fail "a limit does not harm: $priority_p99, $limited_p99 ns"
	[ "$launch" -lt "$priority" ] || fail "gates beat priority: $launch, $priority ns"
	[ "$spread" -lt $((FRAME / 2)) ] || fail "nothing is in the way of a window: slowest beyond p50 by $spread ns"
}

# The verdict can fail: with the plan of set-up 2, a card that keeps no order between its queues breaks the promise.
test_priority_without_order_is_broken() {
	trap no_wire EXIT
	set_up 2-vlan-priority 1 --queues mqprio
	says_broken=$(rtwire judge /tmp/plan.json /tmp/a.evidence /tmp/b.evidence || true)
	case $says_broken in *"longer than the promised"*) ;; *) fail "$says_broken" ;; esac
}
