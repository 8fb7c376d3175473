# The lane `uman`: what `make test` runs of the suites of our kernel modules, in a guest of its own. Sourced by scripts/vm.
# Its two processors take turns in one thread of the emulator (docs/kernel-lab.md says why: `Oops: int3`).

# The suites that other guests leave out then.
UMAN_SUITES="uman uman-more uman-use edrv"
# Loading and leaving under traffic, each transmit mode, replies and cyclic frames with the end of their lease, hostile requests, the
# lower device down, renamed, moved and removed; of the bridge a frame's way out, its answers, coming and going.
UMAN_ESSENTIAL=uman/every_mode_on_veth,uman/a_reply_goes_out_and_ends_with_its_lease
UMAN_ESSENTIAL+=,uman/cyclic_frames_keep_their_number_and_end_with_their_lease,uman/it_loads_and_leaves_under_traffic
UMAN_ESSENTIAL+=,uman/hostile_requests_do_no_harm,uman-more/it_lives_with_what_happens_to_the_lower_device
UMAN_ESSENTIAL+=,edrv/direct_frames_arrive_and_are_told_as_sent,edrv/the_stack_answers_from_its_handler
UMAN_ESSENTIAL+=,edrv/an_automatic_response_lasts_as_long_as_the_stack,edrv/it_comes_and_goes_under_traffic

# uman_left_out: the suites that other guests leave out where no suite is named.
uman_left_out() {
	case ${RTWIRE_VM_UMAN:-all} in
	all) ;;
	essential | none) echo "$UMAN_SUITES" ;;
	*)
		echo "RTWIRE_VM_UMAN is \`all\`, \`essential\` or \`none\`, not \`$RTWIRE_VM_UMAN\`" >&2
		exit 2
		;;
	esac
}

# uman_lane VERSION: the essential tests on that kernel.
uman_lane() {
	local code=0
	export RTWIRE_VM_THREAD=single
	functional "$1" "$UMAN_ESSENTIAL" | tee "$WORK/said-uman" | sed -u "s/^/uman\t/" || code=$?
	[ $code = 0 ] || guest_again "$1" "$WORK/said-uman"
}
