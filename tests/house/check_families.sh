#!/usr/bin/env bash
# What a family of models costs: the files of src/ and capi/ whose code names what it alone has, which are its names, its
# fields of config.json, its keys and its tensors. A family of decoders is in at most 3, all encoders together are in at
# most 8. Comments do not count. Tokenizers do not either: they are named after models, and others have them too.
# Operations of the engine that one family alone needs are named after what they do, and are not found here.
# usage: check_families.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0
code=$(find src capi -name '*.h' -o -name '*.cpp' -o -name '*.inc' |
  grep -vE '^src/text/|/gguf_(encoder_|pre_)?tokenizer|/gguf_vocabulary' | sort |
  xargs awk '{ sub(/(^|[ ;])\/\/.*/, ""); print FILENAME ":" $0 }')

# check FAMILY MOST PATTERN
check() {
  local files n
  files=$(grep -E "^[^:]*:.*($3)" <<<"$code" | cut -d: -f1 | uniq)
  n=$(wc -l <<<"$files")
  echo "$1: $n of at most $2:" $files
  [ "$n" -ge 2 ] || { echo "FAILED: $1 is not found by what it is looked for"; failed=1; }
  [ "$n" -le "$2" ] || { echo "FAILED: $1 is in more than $2 files"; failed=1; }
}

check Ernie 3 '[Ee]rnie'
check EXAONE 3 '[Ee]xaone|EXAONE'
check Gemma 3 '[Gg]emma|query_pre_attn_scalar'
check Granite 3 '[Gg]ranite|(embedding|residual|attention)_multiplier|logits_scaling'
check Hunyuan 3 '[Hh]un[Yy]uan|(query|key)_layernorm|use_cla|use_qk_norm|norm_after_rope|"alpha"'
check Ministral 3 '[Mm]inistral|[Mm]istral3|llama_4_scaling|query_scaling|temperature_scale|yarn_log_multiplier'
check OLMo 3 '[Oo]lmo'
check Qwen-VL 3 '[Qq]wen(2|25|2_5|3)_?[Vv][Ll]|mrope|dimension_sections|deepstack'
check Seed-OSS 3 '[Ss]eed_?[Oo]ss'
check SmolLM 3 '[Ss]mol[Ll][Mm]|no_rope_layers'
check encoders 8 'BERT|[Bb]ert([A-Z_."]|$)|[Mm]pnet|MPNet|[Nn]omic|[Rr]oberta|read_encoder|encoder_(fields|keys)|kEncoder'
exit $failed
