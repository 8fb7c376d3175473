# The replay of a gated port beside TAPRIO, and a gate that is 5 us late: in virtual time, where nothing else is late.

test_taprio() {
	gates --ignored --nocapture >/tmp/gates.log 2>&1 || fail "$(cat /tmp/gates.log)"
	grep -o '@@ note.*' /tmp/gates.log
}
