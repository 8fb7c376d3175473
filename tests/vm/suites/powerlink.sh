# POWERLINK stations as a user runs them, with a queue that keeps launch times.

# network: two namespaces of two queues; /tmp/mn.toml and /tmp/cn.toml.
network() {
	pair 2
	tc -n vm-a qdisc add dev ra root handle 100: mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
	cat >/tmp/mn.toml <<-TOML
		[station]
		node = 240
		interface = "ra"
		cycle = "100 ms"
		soc = "launch"
		soc-priority = 3
		soc-margin = "20 ms"
		[[node]]
		number = 1
		mandatory = true
		response-timeout = "40 ms"
		receives = ["6200h/1 u8"]
		sends = ["6000h/1 u8"]
	TOML
	cat >/tmp/cn.toml <<-TOML
		[station]
		node = 1
		interface = "rb"
		cycle = "100 ms"
		receives = ["6200h/1 u8"]
		sends = ["6000h/1 u8"]
	TOML
}

test_soc_by_launch_time() {
	network
	# The priority's own queue keeps no launch times: refused, with the way to make it so.
	expect 3 in_a rtwire powerlink mn /tmp/mn.toml --duration 1s
	says "keeps no launch times for priority 3"
	says "tc qdisc replace dev ra parent 100:2 etf clockid CLOCK_TAI"
	sed 's/"launch"/"auto"/' /tmp/mn.toml >/tmp/auto.toml
	expect 0 in_a rtwire powerlink mn /tmp/auto.toml --duration 1s
	says "SoC sent by the loop, since no launch times: of its mqprio queues, number 1"
	tc -n vm-a qdisc add dev ra parent 100:2 etf clockid CLOCK_TAI delta 25000000
	ip netns exec vm-b rtwire powerlink cn /tmp/cn.toml >/dev/null 2>&1 &
	cn=$!
	expect 0 in_a rtwire powerlink mn /tmp/auto.toml --duration 25s --json
	says "SoC by launch time, kept by ETF (delta 25000 µs), handed over 45000 µs ahead"
	kill $cn
	wait $cn || true
	last=$(echo "$output" | grep '^{' | tail -n 1)
	count=$(echo "$last" | sed -n 's/.*"handed_over":\([0-9]*\).*/\1/p')
	[ "${count:-0}" -ge 50 ] || fail "SoC with launch times: ${count:-none}: $last"
	# A stall of this machine may bring it back: not at every moment.
	echo "$output" | grep -q '"state":"Operational".*"operational":true' || fail "the node never ran: $last"
}
