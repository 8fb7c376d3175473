# Drivers of real cards, as QEMU emulates them, with native XDP and several queues: igb, virtio-net, vmxnet3. The guest of this suite
# has a kernel and a QEMU of its own (tests/vm/host/cards.sh).

# card_pair DRIVER: two cards of it, cabled to each other, as ra in vm-a and rb in vm-b, with VLAN 5 on both; waits for their links.
card_pair() {
	case $1 in
	igb) ends='5 6' ;;
	virtio_net) ends='7 8' ;;
	vmxnet3) ends='9 a' ;;
	esac
	modprobe "$1"
	for end in a b; do
		set -- "$1" "${ends% *}" "${ends#* }"
		last=$2
		[ $end = a ] || last=$3
		card=
		for _ in $(seq 50); do
			card=$(grep -l "52:54:00:00:00:0$last" /sys/class/net/*/address | head -n 1 | cut -d/ -f5)
			[ -z "$card" ] || break
			sleep 0.1
		done
		[ -n "$card" ] || fail "the guest has no card 52:54:00:00:00:0$last of $1"
		ip netns add vm-$end
		in_$end sysctl -qw net.ipv6.conf.default.disable_ipv6=1 2>/dev/null || true
		ip link set "$card" netns vm-$end name r$end
		ip -n vm-$end link set r$end up
		ip -n vm-$end link add link r$end name r$end.5 type vlan id 5
		ip -n vm-$end link set r$end.5 up
	done
	linked
}

# linked: waits until both ends have their link.
linked() {
	for end in a b; do
		for _ in $(seq 300); do
			! ip -n vm-$end link show r$end | grep -q 'LOWER_UP.* state UP' || continue 2
			sleep 0.1
		done
		fail "r$end has no link: $(ip -n vm-$end link show r$end)"
	done
}

# at_a, at_b COMMAND…: in a namespace, with the file systems of the guest: `ip netns exec` would hide the names of BPF.
at_a() { nsenter --net=/run/netns/vm-a "$@"; }
at_b() { nsenter --net=/run/netns/vm-b "$@"; }


# Linux tells it to whoever looks at the interface's folder in its own namespace.
carrier_changes() { in_b cat /sys/class/net/rb/carrier_changes; }

mac_of_b() { ip -n vm-b link show rb | sed -n 's/.*ether \([0-9a-f:]*\) .*/\1/p'; }

# rust TEST: a test of the crate, of the programs that cards.cargo names; what it notes is shown.
rust() {
	for program in $(sed -n 's/^cards \([^ ]*\).*/\1/p' /lab/programs); do
		/lab/bin/"$program" --ignored --list 2>/dev/null | grep -q "^$1: test" || continue
		/lab/bin/"$program" --ignored --exact "$1" --nocapture --test-threads=1
		return
	done
	fail "no program has the test $1"
}

# answering ARGUMENTS…: a responder at rb until `stop_answering`; its words are in /tmp/answering.
answering() {
	# Not by a function: the signal is for the responder, and not for a shell around it.
	nsenter --net=/run/netns/vm-b rtwire respond rb "$@" >/tmp/answering 2>&1 &
	responder=$!
	for _ in $(seq 300); do
		! grep -q '^answering on' /tmp/answering || return 0
		kill -0 $responder 2>/dev/null || break
		sleep 0.1
	done
	fail "no responder: $(cat /tmp/answering)"
}

stop_answering() {
	kill -TERM $responder
	wait $responder || true
}

# answered: 40 of 40.
answered() {
	expect 0 at_a rtwire ping ra "$(mac_of_b)" --count 40 --interval 5ms --timeout 3s --no-noise
}

# A tag that the card takes out of the frame must not be lost in the answer: native replies are refused, and packet replies keep it.
test_replies_keep_a_tag() {
	card_pair igb
	ip netns exec vm-b ethtool -k rb | grep -q 'rx-vlan-offload: on' || fail "this igb leaves tags in frames"
	rust on_cards_an_answer_has_the_tag_of_its_question_or_is_refused
	answering
	grep -q 'packet socket, since .*rx-vlan-offload off' /tmp/answering || fail "not said: $(cat /tmp/answering)"
	stop_answering
	in_b ethtool -K rb rx-vlan-offload off
	linked
	rust on_cards_an_answer_has_the_tag_of_its_question_or_is_refused
}

# --- The next two are run by `make test`, too (CARDS_ESSENTIAL in tests/vm/host/cards.sh).

# igb takes its link down for each program that is attached or detached.
test_a_listener_changes_no_carrier() {
	card_pair igb
	in_b ethtool -K rb rx-vlan-offload off
	linked
	before=$(carrier_changes)
	expect 0 at_b rtwire attach rb
	says "in native mode"
	says "it was back after"
	echo "@@ note $(head -n 1 <<<"$output")"
	held=$(carrier_changes)
	[ "$held" -gt "$before" ] || fail "this igb keeps its link: the test proves nothing"
	for _ in 1 2 3; do
		answering --path xdp
		grep -q 'XDP in native mode' /tmp/answering || fail "not native: $(cat /tmp/answering)"
		answered
		stop_answering
	done
	[ "$(carrier_changes)" = "$held" ] || fail "the link changed $held to $(carrier_changes) times"
	expect 0 at_b rtwire attach rb
	says "and was before"
	[ "$(carrier_changes)" = "$held" ] || fail "attached twice, the link changed"
	expect 0 at_b rtwire detach rb
	for _ in $(seq 100); do
		[ "$(carrier_changes)" = "$held" ] || break
		sleep 0.1
	done
	[ "$(carrier_changes)" != "$held" ] || fail "it is still attached"
	! ip -n vm-b link show rb | grep -q xdp || fail "still: $(ip -n vm-b link show rb)"
}

# With a sender of the path `xdp` at the queue that receives, with a copy and without.
test_the_path_xdp_loses_nothing() {
	card_pair igb
	RTWIRE_ZERO_COPY=1 rust on_cards_what_arrives_beside_the_path_xdp_is_received
}

# --- The others.

# igb stamps every frame that it sends, and PTP on receipt: `rtwire jitter` wants more. The other drivers have no clock.
test_the_card_stamps_frames() {
	card_pair igb
	rust on_cards_the_card_s_stamps_are_between_send_call_and_reading
	expect 3 at_a rtwire jitter ra --duration 1s --stamps hardware
	says "driver igb"
	says "only some kinds of PTP messages"
	at_a rtwire doctor ra --json >/tmp/doctor || true
	grep -q "hardware stamps by /dev/ptp[0-9]*; sent: every frame; received: only ptp" /tmp/doctor ||
		fail "doctor: $(grep -A3 driver.time_stamps /tmp/doctor)"
}

# A host that only talks: the card stamps what it sends. Its own clock, converted, must agree with the kernel's stamps before it.
test_a_run_has_the_stamps_of_the_card() {
	card_pair igb
	cat >/tmp/two.toml <<-TOML
		[network]
		name = "t"
		[defaults]
		tick-error = "20 ms"
		[[host]]
		name = "A"
		[[host]]
		name = "B"
		[[link]]
		ends = ["A", "B"]
		rate = "100 Mbit/s"
		[[stream]]
		name = "there"
		talker = "A"
		listeners = ["B"]
		payload = "64 B"
		interval = "50 ms"
		priority = 3
	TOML
	expect 3 at_b rtwire run /tmp/two.toml --host B --interface rb --duration 1s --stamps hardware
	says "driver igb"
	says "only some kinds of PTP messages"
	code=0
	at_a rtwire run /tmp/two.toml --host A --interface ra --duration 4s --stamps hardware --json --evidence /tmp/a.evidence \
		>/tmp/a.json 2>/tmp/a.said || code=$?
	# On this slow machine cycles come late, and the verdict says so.
	case $code in 0 | 1 | 4) ;; *) fail "run ended with $code: $(cat /tmp/a.said)" ;; esac
	grep -q '"place": "card"' /tmp/a.json && grep -q '"clock": "PHC ' /tmp/a.json || fail "$(cat /tmp/a.json)"
	value() { sed -n "s/.*\"$1\": \(-\?[0-9]*\).*/\1/p" /tmp/a.json | head -n 1; }
	of_summary() { sed -n "/\"$1\": {/,/}/s/.*\"$2\": \([0-9]*\).*/\1/p" /tmp/a.json | head -n 1; }
	stamped=$(value card_stamps)
	sent=$(value frames_sent)
	[ "$stamped" -ge $((sent / 2)) ] && [ "$stamped" -ge 10 ] || fail "the card stamped $stamped of $sent frames"
	# The least of those that were stamped is at least the least of all.
	queue=$(of_summary off_grid_ns min)
	wire=$(of_summary on_wire_ns min)
	error=$(value conversion_ns)
	echo "@@ note $stamped of $sent stamped; least time behind the instants: queue $queue ns, wire $wire ns; conversion $error ns"
	[ $((wire + error)) -ge "$queue" ] || fail "a frame is on the wire before it is in the queue: $(cat /tmp/a.json)"
	[ "$wire" -le $((queue + error + 20000000)) ] || fail "the card's clock is not converted: $(cat /tmp/a.json)"
	# Given back.
	rust on_cards_nothing_is_switched_on
}

test_a_card_without_a_clock_is_refused() {
	card_pair virtio_net
	expect 3 at_a rtwire jitter ra --duration 1s --stamps hardware
	says "driver virtio_net"
	says "no clock of its own"
}

test_the_path_xdp_loses_nothing_on_virtio() {
	card_pair virtio_net
	# A driver that sends by XDP has a transmit queue for each processor; the card has two pairs.
	at_b ethtool -L rb combined 2 2>/dev/null || true
	RTWIRE_ZERO_COPY=1 rust on_cards_what_arrives_beside_the_path_xdp_is_received
}

test_the_path_xdp_loses_nothing_on_vmxnet3() {
	card_pair vmxnet3
	rust on_cards_what_arrives_beside_the_path_xdp_is_received
}

test_replies_keep_a_tag_on_virtio() {
	card_pair virtio_net
	rust on_cards_an_answer_has_the_tag_of_its_question_or_is_refused
}

test_replies_keep_a_tag_on_vmxnet3() {
	card_pair vmxnet3
	in_b ethtool -K rb rx-vlan-offload off
	linked
	rust on_cards_an_answer_has_the_tag_of_its_question_or_is_refused
}

# long_frames DRIVER MTU: with this MTU native mode is refused by name, generic mode serves, and doctor says so; with 1500 native serves.
long_frames() {
	card_pair "$1"
	for end in a b; do ip -n vm-$end link set r$end mtu "$2"; done
	linked
	expect 3 at_b rtwire attach rb --mode native
	says "in native mode"
	says "an MTU of $2 is too long for most drivers"
	! ip -n vm-b link show rb | grep -q xdp || fail "attached all the same: $(ip -n vm-b link show rb)"
	at_b rtwire doctor rb >/tmp/doctor 2>&1 || true
	grep -q "an MTU of $2: the receive program runs in .$1. up to" /tmp/doctor || fail "doctor: $(cat /tmp/doctor)"
	answering --path auto
	! grep -q 'XDP in native mode' /tmp/answering || fail "native with an MTU of $2: $(cat /tmp/answering)"
	echo "@@ note MTU $2: $(grep '^answering on' /tmp/answering)"
	answered
	stop_answering
	in_b ethtool -K rb rx-vlan-offload off 2>/dev/null || true
	for end in a b; do ip -n vm-$end link set r$end mtu 1500; done
	linked
	answering --path xdp --mode native
	answered
	stop_answering
}

test_long_frames_are_refused_by_name_on_igb() { long_frames igb 9000; }

test_long_frames_are_refused_by_name_on_virtio() { long_frames virtio_net 9000; }

test_long_frames_are_refused_by_name_on_vmxnet3() { long_frames vmxnet3 9000; }

# link_comes_back DRIVER PATH…: a responder outlives its link, natively and with a packet socket.
link_comes_back() {
	card_pair "$1"
	shift
	in_b ethtool -K rb rx-vlan-offload off 2>/dev/null || true
	linked
	for path in "$@"; do
		# shellcheck disable=SC2086 # several words
		answering --path $path
		answered
		for _ in 1 2; do
			ip -n vm-b link set rb down
			! ip -n vm-b link show rb | grep -q LOWER_UP || fail "rb is still up"
			ip -n vm-b link set rb up
			linked
			kill -0 $responder 2>/dev/null || fail "$path: it ended: $(cat /tmp/answering)"
			answered
		done
		[ $path = packet ] || ip -n vm-b link show rb | grep -q xdp || fail "the program has gone"
		stop_answering
	done
}

test_a_link_that_comes_back_is_answered_on_igb() { link_comes_back igb "xdp --mode native" packet; }

test_a_link_that_comes_back_is_answered_on_virtio() { link_comes_back virtio_net "xdp --mode native" packet; }

# Not natively: where the driver has sent an answer itself (XDP_TX), this vmxnet3 receives nothing more once its link was down. A program
# that only passes frames on does not do that.
test_a_link_that_comes_back_is_answered_on_vmxnet3() { link_comes_back vmxnet3 packet; }

# xdp-filter attaches by libxdp's dispatcher, which holds the interface: nothing of it is replaced, and packet sockets serve.
test_a_dispatcher_of_libxdp_is_left_alone() {
	card_pair virtio_net
	at_b xdp-filter load rb -m native
	ip -n vm-b -d link show rb >/tmp/before
	grep -q 'name xdp_dispatcher' /tmp/before || fail "this libxdp has attached without its dispatcher: $(cat /tmp/before)"
	expect 3 at_b rtwire attach rb
	says '`xdp_dispatcher`, number'
	expect 3 at_b rtwire respond rb --path xdp
	says '`xdp_dispatcher`, number'
	at_b rtwire doctor rb >/tmp/doctor 2>&1 || true
	grep -q 'the dispatcher of libxdp is attached in the driver' /tmp/doctor || fail "doctor: $(cat /tmp/doctor)"
	answering --path auto
	grep -q 'packet socket, since .*xdp_dispatcher' /tmp/answering || fail "not said: $(cat /tmp/answering)"
	answered
	stop_answering
	ip -n vm-b -d link show rb | grep prog/xdp >/tmp/after
	grep prog/xdp /tmp/before | cmp - /tmp/after || fail "another one now: $(cat /tmp/after)"
	at_b xdp-filter unload rb
	answering --path xdp --mode native
	answered
	stop_answering
}

# The kernel's own table of interrupts is the referee. The emulated igb interrupts also while its driver has not asked for it.
test_a_thread_that_polls_needs_no_interrupt() {
	card_pair virtio_net
	card=$(in_b readlink -f /sys/class/net/rb/device)
	RTWIRE_CARD=$(basename "$card")-input rust on_cards_a_thread_that_polls_needs_no_interrupt
}

# uman_above DRIVER: the kernel module above such a card, in each of its transmit modes.
uman_above() {
	. /lab/uman-lib.sh
	above card_pair "$1"
	in_a ip addr add 10.7.0.1/24 dev ra
	in_b ip addr add 10.7.0.2/24 dev rb
	every_mode
	leave
}

test_uman_in_every_mode_on_igb() { uman_above igb; }

test_uman_in_every_mode_on_vmxnet3() { uman_above vmxnet3; }
