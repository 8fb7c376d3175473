# What the guest runs: the `rtwire` command, test programs, suites. Sourced by scripts/vm.

# test_program ARGUMENTS…: builds a test or benchmark target and prints its path.
test_program() {
	cargo "$@" --no-run --locked "${PROFILE[@]}" --message-format=json 2>"$WORK/cargo.log" |
		sed -n 's/.*"profile":{[^}]*"test":true.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# payload: builds $WORK/payload.cpio.
payload() {
	local tree=$WORK/payload suite file program line
	mkdir -p "$tree"/lab/{bin,examples} "$WORK/payload-programs/bin"
	cargo build --locked "${PROFILE[@]}" -p rtwire -q

	add_program "${CARGO_TARGET_DIR:-target}/$PROFILE_FOLDER/rtwire" rtwire
	cp -r "$VM"/{suites,measure,lib.sh,case} "$tree/lab/"
	cp "$VM/guest-run" "$tree/lab/run"
	chmod +x "$tree/lab/run"
	cp examples/*.toml "$tree/lab/examples/"
	: >"$tree/lab/programs"
	for file in "$VM"/suites/*.cargo; do
		[ -e "$file" ] || continue
		suite=$(basename "$file" .cargo)
		while read -r line; do
			line=${line%%#*}
			[ -n "${line// /}" ] || continue
			# shellcheck disable=SC2086
			program=$(test_program ${line%% -- *})
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
	pack "$tree" "$WORK/payload.cpio"
}

add_program() { # PATH NAME
	copy_program "$1" "$WORK/payload-programs"
	objcopy --strip-debug "$1" "$WORK/payload/lab/bin/$2"
	cp -rn "$WORK/payload-programs"/lib* "$WORK/payload/" 2>/dev/null || true
}
