# The guest of mirror-against-md.py: the same legs under md and under our mirror.
# The disks are behind dm-delay, whose table says how slow they are. SECONDS is per measurement.
say() { echo "== $*"; }
fail() { say "failed $*"; exit 1; }
waits() { for i in $(seq 400); do if eval "$1"; then return; fi; usleep 50000; done; fail "$1"; }
table() { # disk, then milliseconds of reads, of writes, of flushes
    sectors=$(cat /sys/block/$1/size)
    echo "0 $sectors delay /dev/$1 0 $2 /dev/$1 0 $3 /dev/$1 0 $4"
}
make() { table $2 $3 $4 $5 | dmsetup create $1 || fail "dmsetup create $1"; }
become() {
    table $2 $3 $4 $5 | dmsetup load $1 && dmsetup suspend --nolockfs --noflush $1 \
        && dmsetup resume $1 || fail "dmsetup load $1"
}
legs() { # milliseconds of the slow leg's reads and writes, and of its flushes
    become fast vda 0 0 0; become slow vdb $1 $1 $2
}
load() { # what it is called, device, jobs
    fio --name=w --filename=$2 --direct=1 --ioengine=psync --rw=randwrite --bs=4k --size=24M \
        --numjobs=$3 --group_reporting --thread --rate_iops=200 --time_based --runtime=$SECONDS \
        --percentile_list=50:99:99.9 --output-format=json > fio.log 2>&1 \
        || fail "fio: $(cat fio.log)"
    say "fio $1"; cat fio.log; say end
}
# One leg answers nothing for 2 s in the middle of the run.
frozen() { # leg, then as load
    (waits 'test -n "$(pidof fio)"'
    sleep 2; dmsetup suspend --nolockfs --noflush $1; sleep 2; dmsetup resume $1) &
    thaws=$!; shift; load "$@"; wait $thaws
}
once() { # what it is called, device, dd's options: how long one write takes
    read before idle < /proc/uptime
    dd if=new of=$2 bs=4k count=1 seek=1000 oflag=direct $3 2> dd.log || fail "dd: $(cat dd.log)"
    read after idle < /proc/uptime
    say "once $1 $(awk "BEGIN { print $after - $before }")"
}
holds() { # disk: was the new block anywhere on it?
    tr -d '\0' < $1.image | grep -q "$mark" && echo yes || echo no
}
probe() { # who, device
    mark="mark-$1-$(cut -d. -f1 /proc/uptime)-$$"
    yes "$mark" | head -c 4096 > new
    # Not the first write after a pause: that is another measurement.
    dd if=/dev/zero of=$2 bs=4k count=1 seek=1000 oflag=direct conv=fsync 2> /dev/null
    become slow vdb 0 5000 200
    once "$1;flush" $2 conv=fsync
    for disk in vdb vda vdc; do
        dd if=/dev/$disk of=$disk.image bs=1M iflag=direct 2> /dev/null
    done
    say "probe $1 $(holds vda) $(holds vdb) $(holds vdc)"
    legs 20 20
}
idle() { # who, device
    legs 1000 20
    sleep 8; once "$1;idle" $2
    legs 20 20
}
loads() { # who, device
    load "$1;none" $2 1
    frozen fast "$1;fast" $2 1
    frozen slow "$1;slow" $2 1
    legs 300 20
    load "$1;cap" $2 8
    legs 20 20
}

md() { # what to do
    mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --metadata=1.2 --assume-clean \
        --bitmap=internal --write-behind=256 /dev/dm-0 --write-mostly /dev/dm-1 > log 2>&1 \
        || fail "mdadm: $(cat log)"
    # In the probe, the array stays marked dirty.
    test "$1" = probe && echo 60 > /sys/block/md0/md/safe_mode_delay
    $1 md-write-behind /dev/md0
    say "backlog $(cat /sys/block/md0/md/bitmap/max_backlog_used)"
    mdadm --stop /dev/md0 > /dev/null 2>&1
}
ours() { # what to do, mode, who, a witness
    for disk in vda vdb vdc; do dd if=/dev/zero of=/dev/$disk bs=1M oflag=direct 2> /dev/null; done
    legs 0 0
    devices="--fast /dev/dm-0 --slow /dev/dm-1 $4"
    blocklab mirror create $devices --mode $2 > log 2>&1 || fail "create: $(cat log)"
    legs 20 20
    blocklab mirror serve $devices --as ublk --run ". /lab/functions; $1 $3 \$dev" > log 2>&1 \
        || fail "serve: $(cat log)"
    cat log
}

make fast vda 0 0 0; make slow vdb 20 20 20
sed '/^make fast/,$d' /script > functions
for what in probe idle loads; do
    md $what
    ours $what log log
    ours $what log log-witness "--witness /dev/vdc"
    ours $what relaxed relaxed
    ours $what strict strict
done
