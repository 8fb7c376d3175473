# What comes through a class that is flooded and held by CBS: its idle slope, neither more nor less.

. /lab/suites/host.sh

test_slope() {
	flooded_class
	value credits/1100_kbit/rate "$rate" kbit/s
	[ "$rate" -le 1105 ] && [ "$rate" -ge 1080 ] || fail "$rate kbit/s came through a slope of 1100"
}
