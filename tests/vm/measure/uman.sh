# The experiment that `uman` is for (docs/uman.md): a reply's latency and a cyclic frame's jitter, by the module and by raw sockets,
# on veth, idle and beside a load. In virtual time: instructions. The asking and the listening end are raw sockets in each case.

. /lab/load-lib.sh

load_it() {
	rmmod uman 2>/dev/null || true
	insmod /lab/modules/uman.ko
}

# started FILE END COMMAND…: in the background, until it has said something; its id in $started.
started() {
	file=$1
	end=$2
	shift 2
	rm -f "$file"
	ip netns exec "vm-$end" "$@" >"$file" 2>&1 &
	started=$!
	for _ in $(seq 100); do [ ! -s "$file" ] || return 0; sleep 0.05; done
	fail "\`$*\` has not begun"
}

ended() {
	kill -9 $1
	wait $1 2>/dev/null || true
}

figures() { # NAME ROW FILE
	for figure in min p50 p99 max spread; do
		number=$(sed -n "s/^$2 .*\\b$figure=\\([0-9]*\\).*/\\1/p" "$3")
		[ -n "$number" ] || fail "no $figure of $2: $(cat "$3")"
		# No baselines: the promise is held here.
		[ "$LAB_MODE" = measure ] || value "$1/$figure" "$number" ns
	done
}

reply() { # LOAD
	started /tmp/responder b uman-test raw-reply rb 5
	in_a uman-test ask ra 5 1000 1000000 >/tmp/asked
	ended $started
	figures "uman/reply/raw/$1" reply /tmp/asked
	raw=$(sed -n 's/^reply .*p50=\([0-9]*\).*/\1/p' /tmp/asked)
	load_it
	for mode in qdisc direct; do
		in_b rtwire uman add uman0 --link rb --mode $mode
		ip -n vm-b link set uman0 up
		started /tmp/responder b uman-test reply uman0 5 1000000 0
		in_a uman-test ask ra 5 1000 1000000 >/tmp/asked
		ended $started
		figures "uman/reply/$mode/$1" reply /tmp/asked
		own=$(sed -n 's/^reply .*p50=\([0-9]*\).*/\1/p' /tmp/asked)
		[ $((own * 10)) -le $((raw * 4)) ] || fail "$mode, $1: p50 $own ns, of a raw socket $raw ns; promised: at most 0.4"
		in_b rtwire uman delete uman0
	done
}

cyclic() { # LOAD
	# Spinning: from 100 µs before the instant.
	for spin in 0 100000; do
		name=raw
		[ $spin = 0 ] || name=raw_spinning
		started /tmp/heard b uman-test listen rb 1000 500 1000000
		in_a uman-test raw-cyclic ra 1000000 1000 $spin
		wait $started
		figures "uman/cyclic/$name/$1" phase /tmp/heard
	done
	load_it
	for way in qdisc:0 direct:0 direct:100000; do
		name=${way%:*}
		[ "${way#*:}" = 0 ] || name=${name}_spinning
		in_a rtwire uman add uman0 --link ra --mode ${way%:*}
		ip -n vm-a link set uman0 up
		started /tmp/heard b uman-test listen rb 1000 500 1000000
		in_a uman-test cyclic uman0 1000000 1005 2000 0 ${way#*:} >/tmp/cyclic
		wait $started
		figures "uman/cyclic/$name/$1" phase /tmp/heard
		figures "uman/cyclic/$name/handed/$1" handed /tmp/cyclic
		in_a rtwire uman delete uman0
	done
}

test_reply() {
	pair
	reply idle
}

test_cyclic() {
	pair
	cyclic idle
}

test_reply_under_load() {
	pair
	loads
	busy
	reply load
	idle_again
	unload
}

test_cyclic_under_load() {
	pair
	loads
	busy
	cyclic load
	idle_again
	unload
}
