#!/bin/sh
# The main job. In the simulator: real conversation traffic and ResNet-50 traffic under several policies,
# comparisons, and a what-if sweep of 40 settings. Then the same policies for real: this machine's processor is
# calibrated, replays a minute of traffic under two policies, and is held against the simulator, as are the two
# ends of a frontier computed from its profile. All of it in one results file, in under six minutes.
# `./dev demo` builds the program and calls this with SCHEDTWIN set to it. DEMO_DB names another results file.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
schedtwin=${SCHEDTWIN:-$root/build/release/schedtwin}
[ -x "$schedtwin" ] || { echo "demo: no program $schedtwin; run ./dev demo, or set SCHEDTWIN" >&2; exit 2; }

# A file of the demo's own in build/ starts afresh; any other is only added to.
if [ -n "${DEMO_DB:-}" ]; then
  db=$DEMO_DB
elif [ -d "$root/build" ]; then
  db=$root/build/schedtwin-demo.db
  rm -f "$db" "$db-wal" "$db-shm"
else
  db=schedtwin-demo.db
fi
# shellcheck source=experiments/shell.sh
. "$root/experiments/shell.sh"

what="the real trace, $conv"
[ "$conv" = "$conv_file" ] || what="its synthetic twin (no file $conv_file; set SCHEDTWIN_DATA to use the real trace)"
images=synth:poisson:rate=180,count=20000

say() { printf '\n== %s\n\n' "$*"; }
# one_run COMMAND ARGUMENT...: kept in a variable first, for a pipe would hide that the program failed.
one_run() {
  command=$1
  shift
  report=$("$schedtwin" "$command" --db "$db" "$@")
  printf '%s\n' "$report" | grep -v '^  stored in '
}
sim() { one_run sim "$@"; }
compare() { "$schedtwin" compare --db "$db" "$@"; }

say "1. One hour of the Azure conversation service on Llama-3-8B, one A100: $what"
for policy in fifo static_batch vllm_v1; do
  sim --trace "$conv" --policy $policy --profile llama3-8b-a100 --slo ttft=1s,tpot=100ms
done

echo
echo "static_batch against vllm_v1:"
compare latest-1 latest

say "2. ResNet-50 on a T4: 180 images/s, Poisson arrivals"
for policy in immediate dynamic_batch; do
  sim --trace "$images" --policy $policy --profile resnet50-t4 --slo e2e=100ms
done

echo
echo "immediate against dynamic_batch:"
compare latest-1 latest

say "3. What if? vllm_v1 with 5 batch limits at 8 rates: 40 runs of the hour, on all cores"
"$schedtwin" sweep --db "$db" --trace "$conv" --policy vllm_v1 --profile llama3-8b-a100 \
  --set policy.max_num_seqs=16,32,64,128,256 --rate-scale 0.25,0.5,0.75,0.9,1,1.1,1.25,1.5 \
  --slo ttft=1s,tpot=100ms

profile=${db%.db}-cpu.textproto
# Runs in the file that are not the demo's own are replayed with the profile that they name.
[ -z "${DEMO_DB:-}" ] || profile=${db%.db}-cpu-$(date +%Y%m%d-%H%M%S).textproto
say "4. For real: this machine's processor as a device. Calibrating llama-15m (40 s)"
"$schedtwin" calibrate --model llama-15m -o "$profile"

say "5. A minute of traffic at 70% of what the slower policy sustains, simulated and for real"
batch_rps=$(sustains static_batch "$profile")
vllm_rps=$(sustains vllm_v1 "$profile")
echo "static_batch sustains $(calculate "$batch_rps" 1) requests/s on this processor, vllm_v1 $(calculate "$vllm_rps" 1)"
rps=$(calculate "0.7 * ($batch_rps < $vllm_rps ? $batch_rps : $vllm_rps)")
count=$(calculate "60 * $rps" 0)
scale=$(scale_to "$rps" "$count")
for policy in vllm_v1 static_batch; do
  set -- --policy "$policy" --profile "$profile" --trace "$conv" --length-scale 0.1 --rate-scale "$scale" \
    --limit "$count" --duration 60s
  echo
  sim "$@"
  echo
  one_run exec "$@"
  echo
  echo "$policy, simulated against real:"
  compare latest-1 latest
  "$schedtwin" replay latest --db "$db"
done

say "6. The frontier of this processor, and its two ends for real (30 s each)"
count=$(calculate "30 * $vllm_rps" 0)
low=$(scale_to "$(calculate "0.3 * $vllm_rps")" "$count")
middle=$(scale_to "$(calculate "0.6 * $vllm_rps")" "$count")
high=$(scale_to "$(calculate "0.85 * $vllm_rps")" "$count")
set -- --policy vllm_v1 --profile "$profile" --trace "$conv" --length-scale 0.1 --duration 30s \
  --rate-scale "$low,$middle,$high" --set policy.max_num_seqs=4,8,16,32,64
"$schedtwin" sweep --db "$db" "$@"
"$schedtwin" sweep --db "$work/points.db" "$@" --json >"$work/points.json"
for end in low_latency high_throughput; do
  run=$(number run_id "$(tr '{' '\n' <"$work/points.json" | grep "\"$end\":true")")
  "$schedtwin" db show "$run" --db "$work/points.db" --experiment >"$work/$end.textproto"
  echo
  echo "The $(echo $end | tr _ '-') end, simulated against real:"
  sim "$work/$end.textproto" --record requests >/dev/null
  "$schedtwin" exec "$work/$end.textproto" --record full --db "$db" >/dev/null
  compare latest-1 latest
done

"$schedtwin" db check --db "$db" >/dev/null

say "Done. All of it is in $db, the processor's profile in $profile"
cat <<END
Try next:
  '$schedtwin' db list --db '$db'
  '$schedtwin' sim --trace synth:azure_conv --policy vllm_v1 --devices 2 --rate-scale 2
  '$schedtwin' exec --policy vllm_v1 --profile '$profile' --length-scale 0.1 --duration 20s
  '$schedtwin' policies vllm_v1          what can be set, with --set policy.PARAMETER=VALUE
  '$schedtwin' sweep --help              your own what-if
  '$schedtwin' db show latest --db '$db'
END
