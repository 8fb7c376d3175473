# How far from its launch time a frame leaves: ETF beside a sender that sleeps. In real time only for the benchmark.

test_error() {
	label="virtual time"
	[ "${LAB_TIME:-virtual}" = virtual ] || label="real time, emulated"
	how="--frames 2000"
	[ "$LAB_MODE" = measure ] && how="--frames 300 --delta-us 50"
	# shellcheck disable=SC2086
	launch $how --label "$LAB_KERNEL, $label" >/tmp/rows || fail "$(tail -n 20 /tmp/rows)"
	cat /tmp/rows
	# The figures that are held against baselines: the middle and the spread.
	sed -n 's/^@@ row {"figure":"launch error, \([^,]*\), \([^,]*\),.*, \(p50\|lost\|p99 - p1\)","value":\([-0-9.]*\).*/\1 \2 \3 \4/p' /tmp/rows |
		sed 's/under load/load/; s/p99 - p1/spread/' | while read -r sender load figure us; do
		[ $figure = lost ] && value "launch/$sender/$load/lost" "${us%.0}" frames && continue
		value "launch/$sender/$load/$figure" "$(echo "$us" | awk '{ printf "%.0f", $1 * 1000 }')" ns
	done
}
