# Round trips of 64 octets over veth, in instructions: a reply from the driver, and one from a process.

round_trips() { # NAME ARGUMENTS-OF-RESPOND…
	name=$1
	shift
	pair
	in_b rtwire respond rb --json "$@" >/tmp/respond.json &
	for _ in $(seq 50); do [ -s /tmp/respond.json ] && break; sleep 0.05; done
	# The peer needs a program too, or veth passes no reply of a driver on.
	in_a rtwire ping ra 02:00:00:00:00:02 --count 1000 --interval 1ms --realtime 50 --json >/tmp/ping.json ||
		fail "ping: $(cat /tmp/ping.json /tmp/respond.json)"
	for figure in min p50; do
		value "round_trip/$name/$figure" "$(sed -n "s/.*\"$figure\":\([0-9]*\).*/\1/p" /tmp/ping.json)" ns
	done
}

test_driver() { round_trips driver --path xdp; }
test_process() { round_trips process --path packet; }
