# What the guest runs: the `rtwire` command, test programs, suites. Sourced by scripts/vm.

# all_tests ONLY: builds every test of the workspace at once, as `make test` does, so that nothing is built twice with other
# features; notes where they are. Where only suites of integration tests are asked for, theirs are enough, with the same features.
all_tests() {
	local suite line programs=
	for suite in $(tr , '\n' <<<"$1" | sed 's#/.*##' | sort -u); do
		[ -e "$VM/suites/$suite.cargo" ] || { programs= && break; }
		while read -r line; do
			case $line in
			'' | '#'*) ;;
			'test -p '*' --test '*) programs="$programs --test $(sed 's/.* --test \([^ ]*\).*/\1/' <<<"$line")" ;;
			*) programs= && break 2 ;;
			esac
		done <"$VM/suites/$suite.cargo"
	done
	# shellcheck disable=SC2086 # a list of arguments
	cargo test --workspace $programs --no-run --locked "${PROFILE[@]}" --message-format=json 2>"$WORK/cargo.log" >"$WORK/tests.json" || {
		cat "$WORK/cargo.log" >&2
		return 1
	}
}

# test_program ARGUMENTS…: builds a test, benchmark or example and prints its path.
test_program() {
	if [ "$1 $2" = "test -p" ] && [ -s "$WORK/tests.json" ]; then
		local kind='"kind":\["lib"\]'
		[ "$4" != --test ] || kind="\"kind\":\\[\"test\"\\].*\"name\":\"$5\""
		grep "#$3@" "$WORK/tests.json" | grep "$kind" |
			sed -n 's/.*"profile":{[^}]*"test":true.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
		return
	fi
	if [ "$1" = build ]; then
		cargo "$@" --locked "${PROFILE[@]}" --message-format=json 2>"$WORK/cargo.log" |
			sed -n 's/.*"kind":\["example"\].*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
		return
	fi
	local profile=("${PROFILE[@]}")
	# Benchmarks have a profile of their own, which is release.
	[ "$1" != bench ] || profile=()
	cargo "$@" --no-run --locked "${profile[@]}" --message-format=json 2>"$WORK/cargo.log" |
		sed -n 's/.*"profile":{[^}]*"test":true.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# named ONLY NAME: whether the suite or measurement is among those asked for; all are where none is named.
named() {
	case ",$1," in ,, | *",$2,"* | *",$2/"*) return 0 ;; esac
	return 1
}

# payload WHAT ONLY: builds $WORK/payload.cpio with the programs of `suites`, of `measure`, or of both (`all`).
payload() {
	local tree=$WORK/payload suite file program line
	mkdir -p "$tree"/lab/{bin,examples} "$WORK/payload-programs/bin"
	# All tests together bring the command too. What is asked for alone is built alone, unless all is built already
	# (RTWIRE_VM_WORKSPACE): alone it has other features, and is built anew.
	if [ "$1" = measure ] || [ -n "$2" ] && [ -z "${RTWIRE_VM_WORKSPACE:-}" ]; then
		cargo build --locked "${PROFILE[@]}" -p rtwire-cli -q
	else
		all_tests "$2"
	fi
	add_program "${CARGO_TARGET_DIR:-target}/$PROFILE_FOLDER/rtwire" rtwire
	gcc -O2 -Wall -Wextra -Werror -static -o "$tree/lab/bin/uman-test" kernel/uman/test/uman-test.c
	[ "$1" = measure ] || ! named "$2" cards || dispatcher "$tree"
	# Best effort by a program that is not ours.
	[ "$1" = suites ] || ! named "$2" osadl_product || add_program "$(command -v iperf3)" iperf3
	# The load of the kernel module's experiment.
	[ "$1" = suites ] || ! { named "$2" uman || named "$2" cell; } || load_program || return
	cp -r "$VM"/{suites,measure,lib.sh,uman-lib.sh,load-lib.sh,case} "$tree/lab/"
	cp "$VM/guest-run" "$tree/lab/run"
	chmod +x "$tree/lab/run"
	cp -r examples/. "$tree/lab/examples/"
	: >"$tree/lab/programs"
	for file in "$VM"/suites/*.cargo; do
		suite=$(basename "$file" .cargo)
		[ "$1" != measure ] && named "$2" "$suite" || continue
		while read -r line; do
			line=${line%%#*}
			[ -n "${line// /}" ] || continue
			# shellcheck disable=SC2086
			program=$(test_program ${line%% -- *}) || true
			[ -n "$program" ] || {
				cat "$WORK/cargo.log" >&2
				echo "scripts/vm: $file: \`cargo ${line%% -- *}\` builds no program" >&2
				return 1
			}
			add_program "$program" "$(basename "$program")"
			case $line in *" -- "*) line=${line#* -- } ;; *) line= ;; esac
			echo "$suite $(basename "$program") $line" >>"$tree/lab/programs"
		done <"$file"
	done
	for file in "$VM"/measure/*.cargo; do
		[ "$1" != suites ] && named "$2" "$(basename "$file" .cargo)" || continue
		# shellcheck disable=SC2046
		program=$(test_program $(list "$file")) || true
		[ -n "$program" ] || {
			cat "$WORK/cargo.log" >&2
			return 1
		}
		add_program "$program" "$(basename "$file" .cargo)"
	done
	pack "$tree" "$WORK/payload.cpio"
}

# dispatcher TREE: a program of somebody else that attaches by libxdp's dispatcher, with what it loads.
dispatcher() {
	local folder=/usr/lib/x86_64-linux-gnu/bpf program
	program=$(command -v xdp-filter) && [ -e $folder/xdp-dispatcher.o ] || {
		echo "The suite \`cards\` needs \`xdp-filter\` and libxdp's dispatcher: run \`make setup-test\`" >&2
		return 3
	}
	add_program "$program" xdp-filter
	mkdir -p "$1$folder"
	cp "$folder"/{xdp-dispatcher,xdpfilt_*}.o "$1$folder/"
}

# load_program: hackbench, processes that wake each other as fast as they can.
load_program() {
	command -v hackbench >/dev/null || {
		echo "The measurements \`uman\` and \`cell\` need \`hackbench\`: run \`scripts/setup bench\`" >&2
		return 3
	}
	add_program "$(command -v hackbench)" hackbench
}

add_program() { # PATH NAME
	copy_program "$1" "$WORK/payload-programs"
	objcopy --strip-debug "$1" "$WORK/payload/lab/bin/$2"
	cp -rn "$WORK/payload-programs"/lib* "$WORK/payload/" 2>/dev/null || true
}
