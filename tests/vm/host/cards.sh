# The lane `cards`: a kernel and a QEMU of Debian's backports, for drivers with native XDP and several queues. Sourced by scripts/vm.

# backports SUITE COMMAND ARGUMENTS…: apt-get or apt-cache with that suite alone, and lists of its own. The host's stay as they are.
backports() {
	local suite=$1 command=$2 root=$CACHE/apt/$1 mirror
	shift 2
	if [ ! -e "$root/complete" ]; then
		mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | head -n 1)
		[ -n "$mirror" ] || {
			echo "The lane \`cards\` needs Debian's $suite, and apt names no archive of Debian (\`apt-get indextargets\`)." >&2
			return 3
		}
		rm -rf "$root"
		mkdir -p "$root"/{lists,archives}/partial
		printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nArchitectures: amd64\nSigned-By: %s\n' \
			"$mirror" "$suite" /usr/share/keyrings/debian-archive-keyring.gpg >"$root/list.sources"
		backports_apt "$root" apt-get -qq update >&2 || {
			echo "The lane \`cards\` needs Debian's $suite, which apt cannot read (the reason is above)." >&2
			return 3
		}
		touch "$root/complete"
	fi
	backports_apt "$root" "$command" "$@"
}

backports_apt() { # FOLDER COMMAND ARGUMENTS…
	local root=$1 command=$2
	shift 2
	"$command" -o "Dir::Etc::sourcelist=$root/list.sources" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$root/lists" \
		-o "Dir::Cache=$root" -o Dir::State::status=/dev/null -o Acquire::Languages=none -o Acquire::Retries=2 \
		-o APT::Update::Error-Mode=any "$@"
}

# The tests of the suite that `make test` runs.
CARDS_ESSENTIAL=cards/a_listener_changes_no_carrier,cards/the_path_xdp_loses_nothing

# cards_wanted VERB ONLY: the tests of the suite that are asked for; nothing if none is.
cards_wanted() {
	[ "$1" = test ] || [ "$1" = fetch ] || return 0
	if [ -n "$2" ]; then
		tr , '\n' <<<"$2" | grep -E '^cards(/|$)' | paste -sd, || true
		return
	fi
	case ${RTWIRE_VM_CARDS:-all} in
	all) echo cards ;;
	essential) echo $CARDS_ESSENTIAL ;;
	none) ;;
	*)
		echo "RTWIRE_VM_CARDS is \`all\`, \`essential\` or \`none\`, not \`$RTWIRE_VM_CARDS\`" >&2
		exit 2
		;;
	esac
}

# cards_modules ONLY: whether these tests want the kernel modules of `kernel/`; what builds them is a download of its own.
cards_modules() { tr , '\n' <<<"$1" | grep -qE '^cards(/uman_.*)?$'; }

# cards_prepare ONLY: fetches kernel and QEMU for these tests, and notes the kernel's version.
cards_prepare() {
	local version
	version=$(cards_kernel)
	[ -n "$version" ] || {
		echo "No kernel for the lane \`cards\`: the backports cannot be read, and none is in $CACHE." >&2
		echo "RTWIRE_VM_CARDS=none leaves the lane out." >&2
		exit 3
	}
	cards_fetch "$version"
	cards_qemu
	image "$version" >/dev/null
	! cards_modules "$1" || modules "$version" >/dev/null
	echo "$version" >"$WORK/cards-version"
}

# cards_kernel: the newest real-time kernel of the backports that has all of its parts.
cards_kernel() {
	local found kind
	found=$(
		for kind in linux-binary linux-modules linux-base; do
			backports trixie-backports apt-cache search --names-only "^$kind-[0-9].*-rt-amd64\$" || exit
		done | sed -nE 's/^linux-(binary|modules|base)-([^ ]*) .*/\2/p' | sort -V | uniq -c | awk '$1 == 3 { print $2 }'
	) || true
	# Offline: what was fetched before.
	[ -n "$found" ] || found=$(cd "$CACHE" && ls -d ./*/backports 2>/dev/null | cut -d/ -f2 | sort -V)
	tail -n 1 <<<"$found"
}

# cards_fetch VERSION: that kernel and its modules into $CACHE/VERSION, once. Its image is split into three packages.
cards_fetch() {
	local version=$1 folder=$CACHE/$1 new
	[ -e "$folder/complete" ] && return
	echo "Fetching Linux $version (once; kept in $CACHE)"
	new=$(mktemp -d "$CACHE/fetching.XXXXXX")
	(
		cd "$new"
		cards_download trixie-backports "linux-binary-$version" "linux-modules-$version" "linux-base-$version"
		[ -e lib ] || ln -s usr/lib lib
		depmod -b . "$version"
		unpack "lib/modules/$version/vmlinuz" vmlinux
		touch backports complete
	) || return
	rm -rf "$folder"
	mv "$new" "$folder"
}

# cards_headers VERSION: what modules for it are built with, into $CACHE/VERSION/headers, once. Its tools and its compiler want the
# libraries of a newer Debian: they get a root of their own.
cards_headers() {
	local version=$1 short=${1%-rt-amd64} folder=$CACHE/$1/headers new packages link
	packages=$(backports trixie apt-get -qq -s --no-install-recommends install gcc-14 make libelf1t64 dash coreutils sed grep \
		gawk perl-base findutils diffutils | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
	new=$(mktemp -d "$CACHE/fetching.XXXXXX")
	(
		cd "$new"
		# shellcheck disable=SC2086 # a list
		cards_download trixie $packages || exit
		cards_download trixie-backports "linux-headers-$version" "linux-headers-$short-common" "linux-kbuild-$short" || exit
		for link in bin sbin lib lib64; do ln -s "usr/$link" $link; done
		ln -s gawk usr/bin/awk
		mkdir -p dev proc tmp build
		touch dev/null complete
	) || return
	rm -rf "$folder"
	mv "$new" "$folder"
}

# cards_kbuild ROOT TREE HEADERS ARGUMENT…: make in those headers below ROOT, with TREE as $(TREE).
cards_kbuild() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --map-root-user sh -c 'mount --rbind /proc "$1/proc" && mount --bind /dev/null "$1/dev/null" &&
		mount --bind "$2" "$1/build" && root=$1 headers=$3 && shift 3 &&
		exec chroot "$root" /usr/bin/make -s -C "$headers" TREE=/build "$@"' sh "$@"
}

# cards_download SUITE PACKAGE…: their content, into the folder at hand.
cards_download() {
	local package suite=$1
	shift
	backports "$suite" apt-get download -qq "$@" 2>apt.log || {
		# The list may name a version that is gone from the archive.
		rm -f "$CACHE/apt/$suite/complete"
		backports "$suite" apt-get download -qq "$@" 2>apt.log
	} || {
		cat apt.log >&2
		echo "The lane \`cards\` needs these packages of $suite: $*" >&2
		return 3
	}
	for package in ./*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x; done
	rm ./*.deb apt.log
}

# cards_qemu: sets CARDS_QEMU to a QEMU with igb: this machine's, or one of the backports (10.0.2), fetched once.
cards_qemu() {
	local folder=$CACHE/qemu new
	CARDS_QEMU=(qemu-system-x86_64)
	! qemu-system-x86_64 -device help 2>/dev/null | grep -q '"igb"' || return 0
	if [ ! -e "$folder/complete" ]; then
		echo "Fetching QEMU of bookworm-backports (once; kept in $CACHE)"
		new=$(mktemp -d "$CACHE/fetching.XXXXXX")
		(
			cd "$new"
			cards_download bookworm-backports qemu-system-x86 qemu-system-common qemu-system-data
			touch complete
		) || return
		rm -rf "$folder"
		mv "$new" "$folder"
	fi
	CARDS_QEMU=(env "QEMU_MODULE_DIR=$folder/usr/lib/x86_64-linux-gnu/qemu" "$folder/usr/bin/qemu-system-x86_64"
		-L "$folder/usr/share/qemu" -L /usr/share/seabios -L /usr/lib/ipxe/qemu)
}

# Two cards of each kind, cabled to each other. igb and vmxnet3 have several queues by themselves, virtio-net as many as its
# tap has: those of the kind are in a network namespace of QEMU's own, on a bridge.
CARDS_NICS=(
	-device pcie-root-port,id=r0,chassis=1 -netdev hubport,id=c0,hubid=5 -device igb,bus=r0,netdev=c0,mac=52:54:00:00:00:05
	-device pcie-root-port,id=r1,chassis=2 -netdev hubport,id=c1,hubid=5 -device igb,bus=r1,netdev=c1,mac=52:54:00:00:00:06
	-netdev tap,id=c2,ifname=cards0,script=no,downscript=no,queues=2
	-device virtio-net-pci,netdev=c2,mac=52:54:00:00:00:07,mq=on,vectors=6,iommu_platform=on,disable-legacy=on
	-netdev tap,id=c3,ifname=cards1,script=no,downscript=no,queues=2
	-device virtio-net-pci,netdev=c3,mac=52:54:00:00:00:08,mq=on,vectors=6,iommu_platform=on,disable-legacy=on
	-netdev hubport,id=c4,hubid=6 -device vmxnet3,netdev=c4,mac=52:54:00:00:00:09
	-netdev hubport,id=c5,hubid=6 -device vmxnet3,netdev=c5,mac=52:54:00:00:00:0a)

# cards VERSION ONLY: the suite's tests in a guest of that kernel.
cards() {
	local version=$1 only=$2 start code=0 parts
	parts=("$(image "$version")" "$WORK/payload.cpio")
	if cards_modules "$only"; then
		modules_archive "$version"
		parts+=("$WORK/modules-$version.cpio")
	fi
	echo "Linux $version, two cores, igb, virtio-net and vmxnet3"
	for start in first second last; do
		code=0
		cat "${parts[@]}" >"$WORK/image-$version.cpio"
		timeout "${RTWIRE_VM_TIMEOUT:-3600}" unshare --net --map-root-user bash -c '
			for end in 0 1; do ip tuntap add cards$end mode tap multi_queue || exit 3; done
			ip link add name cards type bridge mcast_snooping 0
			for end in 0 1; do ip link set cards$end master cards up; done
			ip link set cards up
			exec "$@"' cards "${CARDS_QEMU[@]}" -machine q35,hpet=off -m 1G -nodefaults -display none -no-reboot \
			-kernel "$CACHE/$version/vmlinux" -initrd "$WORK/image-$version.cpio" \
			-append "console=ttyS0 quiet loglevel=1 panic=-1 tsc=reliable $FASTER lab.mode=functional lab.only=$only lab.seed=${RTWIRE_VM_SEED:-1}" \
			-accel tcg,thread=multi -cpu max -smp 2 -serial stdio "${CARDS_NICS[@]}" \
			2> >(grep -v 'is not connected to host network' >&2) </dev/null |
			sed -u 's/\r//g' | judge || code=$?
		[ $code = 2 ] && [ $start != last ] || return $code
	done
}
