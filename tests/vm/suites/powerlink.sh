# POWERLINK stations as a user runs them, with a queue that keeps launch times.

test_soc_by_launch_time() {
	launch_pair
	powerlink_cell "100 ms" 'soc = "launch"
		soc-priority = 3
		soc-margin = "20 ms"' "" 'response-timeout = "40 ms"'
	# The priority's own queue keeps no launch times: refused, with the way to make it so.
	expect 3 in_a rtwire powerlink mn /tmp/mn.toml --duration 1s
	says "keeps no launch times for priority 3"
	says "tc qdisc replace dev ra parent 100:2 etf clockid CLOCK_TAI"
	sed 's/"launch"/"auto"/' /tmp/mn.toml >/tmp/auto.toml
	expect 0 in_a rtwire powerlink mn /tmp/auto.toml --duration 1s
	says "SoC sent by the loop, since no launch times: of its mqprio queues, number 1"
	etf 25000000
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
