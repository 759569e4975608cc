#!/usr/bin/env bash
# Makes what is in this folder: searches, experiments, report, and the README's table; hours on two cores.
#
#     cd SOME/FOLDER && bash RWF/results/make.sh [renditions] [cifar] [report]
#
# SOME/FOLDER then holds all runs. The same command goes on with what was broken off. For `cifar` it must have the
# folder cifar100 (train.parquet, test.parquet) and the weights vit_tiny_patch8_64.tinyimagenet.safetensors.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stream=(--batch-size 16 --precision bf16 --class-order shuffled)
small=(3e-4 1e-3 3e-3 1e-2 3e-2) # prompts, adapters, low rank
whole=(1e-5 3e-5 1e-4 3e-4 1e-3) # all weights
heads=(5e-4 1.5e-3 5e-3 1.5e-2 5e-2)
l2p=(--length 2 --top-k 4 --prompt-start 0.1)
again=(--replay 16)

# search WORLD METHOD OPTION.. : five rates on training pictures of the first three tasks, under a seed of its own
search() {
    local world=$1 method=$2
    shift 2
    rwf tune "$method" "${data[@]}" "${stream[@]}" --seed 100 --out "$world/tune/$method" --jobs 2 "$@"
}

# searches WORLD METHOD.. : with the head's rate that the linear probe chose
searches() {
    local world=$1 method rates own
    shift
    for method; do
        own=(--head-lr 1.5e-2 --mask batch) rates=("${small[@]}")
        case $method in
        linear_probe) own=(--mask batch --search "head_lr=$(IFS=,; echo "${heads[*]}")") rates=() ;;
        l2p) own+=("${l2p[@]}") ;;
        dual_prompt) [ "$world" = renditions ] && rates=(1e-3 3e-3 1e-2 3e-2 1e-1) ;;
        online_lora) rates=(3e-5 1e-4 3e-4 1e-3 3e-3) ;;
        inflora | aper_adapter | ease) own=(--head-lr 1.5e-2) ;;
        finetune | joint | ewc_pp) rates=("${whole[@]}") ;;
        er | agem | der_pp | ema_der_pp | ema_rar) own+=("${again[@]}") rates=("${whole[@]}") ;;
        mir) own+=("${again[@]}" --candidates 50) rates=("${whole[@]}") ;;
        er_ace | pcr | lode) own=(--head-lr 1.5e-2 "${again[@]}") rates=("${whole[@]}") ;;
        gdumb) own=(--head-lr 1.5e-2 --epochs 15 --memory-batch 16) rates=("${whole[@]}") ;;
        esac
        search "$world" "$method" "${own[@]}" ${rates:+--lr "${rates[@]}"}
    done
}

# experiment WORLD FOLDER NAME OPTION.. : with the settings of this folder, and the rates that the searches chose
experiment() {
    local world=$1 folder=$2 name=$3
    shift 3
    rwf experiment "$name" "${data[@]}" "${stream[@]}" --anytime 0 --jobs 2 --runs "$world/runs" \
        --out "$world/$folder" --settings "$here/settings-$world.json" "$world"/tune/* "$@"
}

light=(rwf linear_probe vpt l2p dual_prompt coda_prompt online_lora inflora aper_adapter ease)
whole_network=(finetune joint ewc_pp)
closed=(ncm slda ranpac)
replay=(er er_ace agem mir pcr lode der_pp ema_der_pp ema_rar gdumb)

renditions() {
    data=(--benchmark split-renditions --backbone vit_nano_patch8_64.renditions)
    searches renditions "${light[@]}" "${whole_network[@]}" "${replay[@]}"
    experiment renditions table1 table1 --seeds 0 1 2 3 4 --methods "${light[@]}" "${whole_network[@]}" "${closed[@]}"
    experiment renditions table1-replay table1 --seeds 0 1 2 --methods "${replay[@]}"
    experiment renditions ladder ladder --seeds 0 1
    experiment renditions tasks tasks --seeds 0 1 --methods rwf linear_probe ncm
    experiment renditions masks masks --seeds 0 1
    experiment renditions depth depth --seeds 0
}

cifar() {
    data=(--benchmark parquet:cifar100 --backbone vit_tiny_patch8_64.tinyimagenet.safetensors --train-fraction 0.4)
    local tuned=(linear_probe rwf vpt l2p dual_prompt coda_prompt finetune joint er er_ace)
    searches cifar "${tuned[@]}"
    data+=(--test-fraction 0.4)
    experiment cifar table1 table1 --seeds 0 1 --methods "${tuned[@]}" "${closed[@]}"
    experiment cifar ladder ladder --seeds 0
    experiment cifar masks masks --seeds 0 --methods rwf linear_probe finetune
    experiment cifar depth depth --seeds 0
}

report() {
    rwf report renditions cifar --out "$here" --into "$here/../README.md"
}

for part in "${@:-renditions cifar report}"; do
    for name in $part; do "$name"; done
done
