#!/bin/sh
# The claim: simulated E2E (mean and p50) is within max(8%, spread) of the real one on the demo's workload,
# where spread = (max - min) / median of five real runs of a policy. The machine drifts, so real runs take turns
# with calibrations, and each is held against the simulation on the profile made before it. A spread above
# 15%, or a run whose arrivals were late, voids the measurement: it is reported as such, and is no pass. Takes a
# good quarter of an hour; the machine must be quiet. `./dev claims` calls this with SCHEDTWIN set.
# Exit status: 0 all hold, 1 one does not, 3 one is void.
set -eu

schedtwin=${SCHEDTWIN:?the program}
root=$(cd "$(dirname "$0")/../.." && pwd)
repeats=${CLAIM_REPEATS:-5}
seconds=${CLAIM_SECONDS:-60}
# shellcheck source=experiments/shell.sh
. "$root/experiments/shell.sh"
db=$work/claim.db

calibrate() { "$schedtwin" calibrate --model llama-15m -o "$work/$1.textproto" >/dev/null; }
# One run; notes its E2E mean and p50 in ms, and why it is invalid if it is.
run() { # COMMAND POLICY PROFILE
  report=$("$schedtwin" "$1" --db "$db" --json --policy "$2" --profile "$work/$3.textproto" --trace "$conv" \
    --length-scale 0.1 --rate-scale "$scale" --limit "$count" --duration "${seconds}s")
  e2e=$(printf '%s' "$report" | tr '{' '\n' | sed -n '/"e2e_ms":$/{n;p;}')
  mean=$(number mean "$e2e")
  p50=$(number p50 "$e2e")
  echo "$1 $2 $mean $p50" | tee -a "$work/figures"
  invalid=$(printf '%s' "$report" | grep -o '"invalid":"[^"]*"' || true)
  [ -z "$invalid" ] || echo "$2 $invalid" | tee -a "$work/invalid"
}

: >"$work/figures"
: >"$work/invalid"
calibrate 0
slower=$(sustains static_batch "$work/0.textproto")
faster=$(sustains vllm_v1 "$work/0.textproto")
rps=$(calculate "0.7 * ($slower < $faster ? $slower : $faster)")
count=$(calculate "$seconds * $rps" 0)
scale=$(scale_to "$rps" "$count")
echo "$count requests at $rps a second (static_batch sustains $slower, vllm_v1 $faster)"
for i in $(seq "$repeats"); do
  calibrate "$i"
  for policy in vllm_v1 static_batch; do
    run exec "$policy" "$i"
    run sim "$policy" "$i"
  done
done

awk -v repeats="$repeats" -v invalid="$(cut -d' ' -f1 "$work/invalid" | sort -u | tr '\n' ' ')" '
  function sorted(list, n,    i, k, t) {
    for (i = 2; i <= n; ++i)
      for (k = i; k > 1 && list[k] < list[k - 1]; --k) { t = list[k]; list[k] = list[k - 1]; list[k - 1] = t }
  }
  function median(list, n) { return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }
  { for (f = 3; f <= 4; ++f) value[$1, $2, f, ++n[$1, $2, f]] = $f; policies[$2] }
  END {
    status = 0
    for (policy in policies) for (f = 3; f <= 4; ++f) {
      m = n["exec", policy, f]
      if (m != repeats || n["sim", policy, f] != m) { print policy ": runs are missing"; exit 1 }
      for (i = 1; i <= m; ++i) { real[i] = value["exec", policy, f, i]; sim[i] = value["sim", policy, f, i] }
      sorted(real, m); sorted(sim, m)
      spread = (real[m] - real[1]) / median(real, m)
      gap = median(sim, m) / median(real, m) - 1
      allowed = spread > 0.08 ? spread : 0.08
      verdict = spread > 0.15 || index(invalid, policy) ? "VOID" : (gap <= allowed && gap >= -allowed ? "holds" : "DOES NOT HOLD")
      if (verdict == "VOID" && status == 0) status = 3
      if (verdict == "DOES NOT HOLD") status = 1
      printf "%-13s E2E %-4s real %8.1f ms (spread %4.1f%%)  sim %8.1f ms  gap %+5.1f%%  %s\n", policy,
        f == 3 ? "mean" : "p50", median(real, m), 100 * spread, median(sim, m), 100 * gap, verdict
    }
    exit status
  }' "$work/figures"
