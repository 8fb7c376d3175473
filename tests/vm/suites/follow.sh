# `rtwire doctor IF --plan FILE --host A` follows each stream through the queues of an ordinary host: mqprio, ETF, gates, VLAN links. Each fault that is
# planted on its way is named.

. /lab/suites/host.sh

# path WORDS: what doctor says of the stream "fast" (or $stream) on its way through the queues.
path() {
	output=$(in_a rtwire doctor ra --plan plan.toml --host A --json 2>&1) || [ $? = 1 ] || fail "doctor: $output"
	output=$(echo "$output" | grep -A3 "\"streams.${stream:-fast}\"")
	says "$1"
}

faulty() { # WORDS QUEUES…: queues with a fault that doctor names
	local line words=$1
	shift
	in_a tc qdisc del dev ra root 2>/dev/null || true
	for line in "$@"; do
		# shellcheck disable=SC2086
		in_a tc $line
	done
	path "$words"
	path '"level": "fault"'
}

test_doctor_follows_a_stream_through_mqprio() {
	network "" ""
	pair 4
	expect 0 apply --no-sync --isolation none
	path '"level": "good"'
	path "stream fast: class 3"
	expect 0 nsenter --net=/run/netns/vm-a rtwire revert ra
	faulty "shares the class with all other traffic" \
		"qdisc add dev ra root handle 1: mqprio num_tc 1 map 0 0 0 0 0 0 0 0 queues 4@0 hw 0"
	local mqprio="qdisc add dev ra root handle 1: mqprio num_tc 4 map 0 0 1 1 2 2 3 3 queues 1@0 1@1 1@2 1@3 hw 0"
	faulty "ETF with delta 0 drops every frame" "$mqprio" "qdisc add dev ra parent 1:4 etf clockid CLOCK_TAI delta 0"
	faulty "the plan gives them no launch time" "$mqprio" "qdisc add dev ra parent 1:4 etf clockid CLOCK_TAI delta 200000"
	faulty "ETF drops its frames: the plan gives them no launch time" "qdisc add dev ra root etf clockid CLOCK_TAI delta 200000"
	faulty "the plan gives them no launch time" "$mqprio" \
		"qdisc add dev ra parent 1:1 etf clockid CLOCK_TAI delta 200000" \
		"qdisc add dev ra parent 1:2 etf clockid CLOCK_TAI delta 200000" \
		"qdisc add dev ra parent 1:3 etf clockid CLOCK_TAI delta 200000" \
		"qdisc add dev ra parent 1:4 etf clockid CLOCK_TAI delta 200000"
	faulty "netem delays, drops or reorders" "$mqprio" "qdisc add dev ra parent 1:4 netem delay 1ms"
	faulty "netem delays, drops or reorders" "$mqprio" "qdisc add dev ra parent 1:4 handle 9: tbf rate 90mbit burst 9k limit 9k" \
		"qdisc add dev ra parent 9: netem delay 1ms"
	faulty "htb delays, drops or reorders" "$mqprio" "qdisc add dev ra parent 1:4 handle 9: htb default 1"
}

test_doctor_follows_datagrams_through_a_vlan_link() {
	network "" ""
	cat >>plan.toml <<-END
		[[stream]]
		name = "datagrams"
		talker = "A"
		listeners = ["B"]
		payload = "64 B"
		interval = "10 ms"
		priority = 5
		vlan = 6
		transport = "udp"
	END
	pair 4
	expect 0 apply --no-sync --isolation none
	stream=datagrams
	path '"level": "good"'
	link=$(in_a ip -d link show type vlan | sed -n 's/^[0-9]*: \(rtw[0-9]*v6\)@.*/\1/p')
	path "VLAN link $link"
	in_a tc qdisc add dev "$link" root netem delay 1ms
	path "netem delays, drops or reorders"
	in_a tc qdisc del dev "$link" root
	in_a ip link set "$link" type vlan egress-qos-map 5:0
	path "gives its frames priority 0, not 5"
	in_a ip link set "$link" type vlan egress-qos-map 5:5
	in_a ip link set "$link" mtu 68
	path "do not fit the MTU of 68 of $link"
	in_a ip link set "$link" mtu 1500
	in_a ip link set "$link" down
	path "is down"
	in_a ip link set "$link" up
	path '"level": "good"'
	in_a ip link del "$link"
	path "no link of VLAN 6 is on ra"
}

test_doctor_follows_a_stream_through_gates() {
	network 'gates = "unlimited"' 'schedule = "time-triggered"
		jitter = "10 us"'
	pair 4
	expect 0 apply --no-sync --isolation none
	path '"level": "good"'
	expect 0 nsenter --net=/run/netns/vm-a rtwire revert ra
	local taprio="qdisc add dev ra root handle 1: taprio num_tc 4 map 0 0 1 1 2 2 3 3 queues 1@0 1@1 1@2 1@3 base-time 0"
	faulty "class 3, closed 100.0 % of the cycle; its class never opens" \
		"$taprio sched-entry S 07 500000 sched-entry S 03 500000 clockid CLOCK_TAI"
	faulty "not the network's time" "$taprio sched-entry S 0f 1000000 clockid CLOCK_MONOTONIC"
	faulty "its longest window is 5000 ns" "$taprio sched-entry S 08 5000 sched-entry S 07 995000 clockid CLOCK_TAI"
	faulty "the gate list lasts 900000 ns and its cycle 1000000 ns" \
		"$taprio cycle-time 1000000 sched-entry S 0f 900000 clockid CLOCK_TAI"
}
