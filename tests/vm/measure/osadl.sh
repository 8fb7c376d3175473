# The OSADL experiment: real-time UDP beside best effort, in four set-ups; they must order as theory says.

test_four_set_ups() {
	# What the plan promises for there and back, with the sender's one frame of best effort in the way each time.
	rtwire plan /lab/examples/osadl/network.toml --json >/tmp/plan.json || fail "$(cat /tmp/plan.json)"
	bound=$(awk '/"promises"/ { next_one = 1 } next_one && /"delay_ns"/ { gsub(/[^0-9]/, ""); sum += $0; next_one = 0 } END { print sum }' /tmp/plan.json)
	[ "${bound:-0}" -gt 0 ] || fail "no bound in the plan: $(cat /tmp/plan.json)"
	cycles=1000
	[ "$LAB_MODE" = measure ] || cycles=10000
	echo "promised there and back: $bound ns"
	# shellcheck disable=SC2086
	osadl --cycles $cycles --bound "$bound" ${LAB_MORE:-} || fail "the experiment failed"
}
