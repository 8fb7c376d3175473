# Kernels and images of the lab, made on the host and kept in $CACHE. Sourced by scripts/vm.

# resolve WHICH: the version that a series (`6.1`) or `newest` stands for, as this machine's package lists have it; with
# `/generic` behind it the kernel without PREEMPT_RT. `backports` is the kernel of the lane `cards`, `debug` one that is built here.
resolve() {
	local found flavour=-rt series=${1%/generic}
	case $1 in
	backports) cards_kernel && return ;;
	debug) debug_kernel && return ;;
	esac
	[ "$series" = "$1" ] || flavour=
	# An image named `…-unsigned` is the kernel itself; the others depend on it or sign it.
	found=$(apt-cache search --names-only "^linux-image-[0-9][^-]*(-[0-9]+)?$flavour-amd64-unsigned\$" |
		sed -n 's/^linux-image-\(.*\)-unsigned .*/\1/p' | sort -V)
	# Without package lists (or offline) what was fetched before serves.
	[ -n "$found" ] || found=$(cd "$CACHE" && ls -d ./*-amd64 2>/dev/null | sed 's#^\./##' |
		grep -E "^[0-9][^-]*(-[0-9]+)?$flavour-amd64\$" | while read -r found; do
		# The lane `cards` has a kernel of its own.
		[ -e "$CACHE/$found/backports" ] || echo "$found"
	done | sort -V)
	[ "$series" = newest ] || found=$(grep "^${series//./\\.}\." <<<"$found")
	tail -n 1 <<<"$found"
}

# fetch VERSION: its uncompressed kernel and its modules into $CACHE/VERSION, once.
fetch() {
	local version=$1 folder=$CACHE/$1 new
	[ -e "$folder/complete" ] && return
	if [ "$version" = "$(cat "$WORK/backports" 2>/dev/null)" ]; then
		cards_fetch "$version"
		return
	fi
	case $version in *-debug-*)
		debug_fetch "$version"
		return
		;;
	esac
	echo "Fetching Linux $version (once; kept in $CACHE)"
	new=$(mktemp -d "$CACHE/fetching.XXXXXX")
	(
		cd "$new"
		apt-get download -qq "linux-image-$version-unsigned" 2>apt.log || {
			# The list may name a version that is gone from the archive.
			apt-get update -qq && apt-get download -qq "linux-image-$version-unsigned" 2>apt.log
		} || {
			cat apt.log >&2
			exit 1
		}
		dpkg-deb --fsys-tarfile ./*.deb | tar -x
		rm ./*.deb apt.log
		depmod -b . "$version"
		unpack "boot/vmlinuz-$version" vmlinux
		touch complete
	)
	rm -rf "$folder"
	mv "$new" "$folder"
}

# headers VERSION: what modules for it are built with, into $CACHE/VERSION/headers, once.
headers() {
	local version=$1 folder=$CACHE/$1/headers new packages common
	[ -e "$folder/complete" ] && return
	echo "Fetching the headers of Linux $version (once; kept in $CACHE)"
	if [ -e "$CACHE/$version/backports" ]; then
		cards_headers "$version"
		return
	fi
	# Not what they depend on for the sake of a running kernel: its image, the compiler.
	packages=$(apt-cache depends "linux-headers-$version" |
		sed -nE 's/.*Depends: (linux-(headers-.*-common.*|kbuild-.*|compiler-.*))$/\1/p')
	[ -n "$packages" ] || {
		echo "apt offers no linux-headers-$version: the kernel modules cannot be built for it" >&2
		return 1
	}
	new=$(mktemp -d "$CACHE/fetching.XXXXXX")
	(
		cd "$new"
		# shellcheck disable=SC2086
		apt-get download -qq "linux-headers-$version" $packages 2>apt.log || {
			cat apt.log >&2
			exit 1
		}
		for package in ./*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -x; done
		rm ./*.deb apt.log
		# The package names its other half by the place where it would be installed.
		common=$(grep -o 'linux-headers-[^/ ]*-common[^/ ]*' <<<"$packages")
		echo "include $folder/usr/src/$common/Makefile" >"usr/src/linux-headers-$version/Makefile"
		touch complete
	)
	rm -rf "$folder"
	mv "$new" "$folder"
}

# kbuild VERSION TREE ARGUMENT…: make in the headers of that kernel, with TREE as $(TREE).
kbuild() {
	local version=$1 tree=$2 headers=$CACHE/$1/headers
	shift 2
	if [ -e "$CACHE/$version/backports" ]; then
		cards_kbuild "$headers" "$tree" "/usr/src/linux-headers-$version" "$@"
	else
		make -s -C "$headers/usr/src/linux-headers-$version" "TREE=$tree" "$@"
	fi
}

# modules VERSION: builds `kernel/` for it and prints the folder of the modules; made anew when a source changes. A warning fails.
modules() {
	local version=$1 key folder folder_of new
	key=$(cd "$VM/../../kernel" && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-12)
	folder=$CACHE/$version/modules-$key
	if [ ! -e "$folder" ]; then
		headers "$version" >&2
		rm -rf "$CACHE/$version"/modules-*
		new=$(mktemp -d "$CACHE/$version/building.XXXXXX")
		cp -r "$VM/../../kernel/." "$new"
		# The headers of newer kernels carry their image; without pahole the types of a module are left out.
		for folder_of in uman edrv-bridge/test; do
			kbuild "$version" "$new" "M=\$(TREE)/$folder_of" W=1 KCFLAGS=-Werror CONFIG_DEBUG_INFO_BTF_MODULES= CONFIG_PAHOLE_VERSION=0 \
				KBUILD_EXTRA_SYMBOLS="$([ "$folder_of" = uman ] || echo '$(TREE)/uman/Module.symvers')" modules >&2 || {
				rm -rf "$new"
				return 1
			}
		done
		mkdir "$new/ko"
		find "$new/uman" "$new/edrv-bridge" -name '*.ko' -exec cp {} "$new/ko/" \;
		strip --strip-debug "$new"/ko/*.ko
		mv "$new/ko" "$folder"
		rm -rf "$new"
	fi
	echo "$folder"
}

# modules_archive VERSION: the modules for the guest, in /lab/modules.
modules_archive() {
	[ ! -e "$WORK/modules-$1.cpio" ] || return 0
	mkdir -p "$WORK/modules-$1/lab/modules"
	cp "$(modules "$1")"/*.ko "$WORK/modules-$1/lab/modules/"
	pack "$WORK/modules-$1" "$WORK/modules-$1.cpio"
}

# unpack VMLINUZ VMLINUX: QEMU starts the uncompressed kernel at once; unpacking it in the guest takes seconds.
unpack() {
	local magic command at
	for magic in 'xz:\xfd7zXZ\x00' 'zstd:\x28\xb5\x2f\xfd'; do
		command=${magic%%:*}
		for at in $(LC_ALL=C grep -obUaP "${magic#*:}" "$1" | cut -d: -f1); do
			# What follows the kernel in the file makes the decompressor complain: the result counts.
			tail -c "+$((at + 1))" "$1" | "$command" -dcq >"$2" 2>/dev/null || true
			if [ "$(head -c 4 "$2" | tail -c 3)" = ELF ]; then return; fi
		done
	done
	echo "scripts/vm: cannot unpack $1: neither xz nor zstd" >&2
	return 1
}

list() { sed 's/#.*//' "$1" | tr -s ' \t\n' '\n'; }

# copy_program PATH FOLDER: a program and the libraries it needs.
copy_program() {
	local library
	cp -L "$1" "$2/bin/"
	for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
		mkdir -p "$2$(dirname "$library")"
		[ -e "$2$library" ] || cp -L "$library" "$2$library"
	done
}

pack() { # FOLDER ARCHIVE
	(cd "$1" && find . | LC_ALL=C sort | cpio -o -H newc --quiet --reproducible -R 0:0) >"$2"
}

# image VERSION: prints the path of the archive with busybox, programs, modules; made anew when any of them changes.
image() {
	local version=$1 tree module path key archive
	key=$({
		cat "$VM/modules" "$VM/programs" "$VM/init" "$VM/host/kernel.sh"
		for path in busybox $(list "$VM/programs"); do stat -Lc '%n %s %Y' "$(command -v "$path")"; done
	} | sha256sum | cut -c1-12)
	archive=$CACHE/$version/image-$key.cpio
	if [ ! -e "$archive" ]; then
		rm -f "$CACHE/$version"/image-*.cpio
		tree=$(mktemp -d)
		mkdir -p "$tree"/{bin,proc,sys,dev,tmp,run,etc,root,usr/lib,lab} "$tree/lib/modules/$version"
		# The kernel loads modules by /sbin/modprobe.
		ln -s bin "$tree/sbin"
		cp -L "$(command -v busybox)" "$tree/bin/busybox"
		for path in $(list "$VM/programs"); do copy_program "$(command -v "$path")" "$tree"; done
		cp -r /etc/iproute2 "$tree/etc/" 2>/dev/null || true
		for path in /usr/lib/tc /usr/lib/iproute2; do
			[ ! -d $path ] || cp -r $path "$tree/usr/lib/"
		done
		printf 'root:x:0:0:root:/root:/bin/sh\n' >"$tree/etc/passwd"
		for module in $(list "$VM/modules"); do
			# A driver that the kernel has built in has no file, and a kernel may lack one: the tests say so.
			modprobe -d "$CACHE/$version" -S "$version" -C /var/empty --show-depends "$module" 2>/dev/null || true
		done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r path; do
			module=$tree/lib/modules/$version/${path#*/modules/"$version"/}
			mkdir -p "$(dirname "$module")"
			case $path in
			*.xz) xz -dc "$path" >"${module%.xz}" ;;
			*.zst) zstd -dcq "$path" >"${module%.zst}" ;;
			*) cp "$path" "$module" ;;
			esac
		done
		find "$tree/lib/modules" -name '*.ko' -exec strip --strip-debug {} +
		cp "$CACHE/$version/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$tree/lib/modules/$version/"
		depmod -b "$tree" "$version"
		cp "$VM/init" "$tree/init"
		pack "$tree" "$archive.new"
		mv "$archive.new" "$archive"
		rm -rf "$tree"
	fi
	echo "$archive"
}
