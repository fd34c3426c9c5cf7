# The embedded model, and all that is measured on it, from nothing: `make embedded`. Everything is made in runs/embedded,
# and put in its place at the end. A step goes on where it was interrupted, and is left out once it is done.

RUN      := runs/embedded
SFT      := $(RUN)/embedded-sft
MODEL    := $(RUN)/embedded
RLCM     := $(BIN)/rlcm
WORDS     = $(subst -, ,$*)

SAMPLES  := 1 4 8
RISKS    := selective regret error
REPORTS := $(foreach risk,$(RISKS),$(SAMPLES:%=$(MODEL)/certificates/reports/$(risk)-%.json))
REPORTS += $(SFT)/certificates/reports/selective-1.json
RESULTS  := $(RUN)/evaluation-embedded/metrics.json $(RUN)/evaluation-embedded-sft/metrics.json
SHIPPED  := config.json generation_config.json chat_template.jinja tokenizer.json tokenizer_config.json model.safetensors
SHIPPED  += probe familiarity certificates

embedded: $(REPORTS) $(RESULTS) $(RUN)/embedded-sft-calibration.parquet $(RUN)/embedded-sft-study.parquet  ## train, calibrate and measure the embedded model anew, and put it in its place (hours)
	@cp $(filter-out %.inputs.parquet,$(wildcard $(RUN)/*.parquet)) studies/traces/
	@for model in embedded embedded-sft; do \
		cp $(RUN)/evaluation-$$model/metrics.json studies/results/evaluation-$$model.json; \
		rm -rf rlcm_serve/models/$$model/certificates; \
		cp -r $(SHIPPED:%=$(RUN)/$$model/%) rlcm_serve/models/$$model/; \
	done
	@cp $(MODEL)/training-problems.parquet rlcm_serve/models/embedded/
	@$(BIN)/python -m studies.serving.live_risk --data $(RUN)/test-240-0.jsonl
	@$(BIN)/python -m studies.serving.first_light

# Problems: SPLIT-COUNT-SEED.jsonl
$(RUN)/%.jsonl: | $(INSTALLED)
	@mkdir -p $(RUN)
	@$(RLCM) examples --jsonl --split $(word 1,$(WORDS)) --count $(word 2,$(WORDS)) --seed $(word 3,$(WORDS)) > $@

# The warm start, and the policy that RLCM makes of it.
$(SFT)/model.safetensors: | $(INSTALLED)
	@$(RLCM) train sft --out $(SFT)

$(MODEL)/model.safetensors: configs/embedded.toml $(SFT)/model.safetensors
	@$(RLCM) train rl --config $< --method rlcm --model $(SFT) --out $(MODEL)

# Their probes. The policy's is made after it, on problems that it was not trained on: the one trained beside it is less
# well calibrated (docs/decisions.md).
$(SFT)/probe/metrics.json: $(RUN)/train-1000-0.jsonl $(SFT)/model.safetensors
	@$(RLCM) train probe --model $(SFT) --data $< --interval 32 --rollouts 4 --samples 4 --inputs state,tokens

$(MODEL)/probe/metrics.json: $(RUN)/validation-2600-0.jsonl $(MODEL)/model.safetensors
	@$(RLCM) train probe --model $(MODEL) --data $< --interval 32 --rollouts 2 --samples 4 --inputs state,tokens

# What tells questions that are unlike the calibration's.
$(RUN)/%/familiarity/config.json: $(RUN)/validation-4000-21.jsonl $(RUN)/%/model.safetensors
	@$(RLCM) train familiarity --model $(RUN)/$* --data $<

# What the power study was made on, and so the constants of the default method: other problems.
$(RUN)/embedded-sft-calibration.parquet: $(RUN)/calibration-3000-1.jsonl $(SFT)/probe/metrics.json
	@$(RLCM) collect --model $(SFT) --data $< --out $@

$(RUN)/embedded-sft-study.parquet: $(RUN)/calibration-1600-2.jsonl $(SFT)/probe/metrics.json
	@$(RLCM) collect --model $(SFT) --data $< --rollouts 8 --out $@

# MODEL/certificates/RISK-SAMPLES.json
ALPHAS_selective := 0.01 0.02 0.05 0.1 0.2
ALPHAS_error     := 0.05 0.1 0.2 0.3
# What they are fitted on, and held against.
ROLLOUTS_embedded     := 8
ROLLOUTS_embedded-sft := 4
define certified
$(RUN)/$(1)-calibration-$(ROLLOUTS_$(1)).parquet: $(RUN)/calibration-1600-3.jsonl $(RUN)/$(1)/probe/metrics.json $(RUN)/$(1)/familiarity/config.json
	@$(RLCM) collect --model $(RUN)/$(1) --data $$< --rollouts $(ROLLOUTS_$(1)) --keep-inputs --out $$@

$(RUN)/$(1)-test.parquet: $(RUN)/test-240-0.jsonl $(RUN)/$(1)/probe/metrics.json $(RUN)/$(1)/familiarity/config.json
	@$(RLCM) collect --model $(RUN)/$(1) --data $$< --rollouts 8 --keep-inputs --out $$@

REPORTS_$(1) := $$(filter $(RUN)/$(1)/%,$(REPORTS))

$$(subst /reports,,$$(REPORTS_$(1))): $(RUN)/$(1)/certificates/%.json: $(RUN)/$(1)-calibration-$(ROLLOUTS_$(1)).parquet
	@$(RLCM) fit $$< --risk $$(word 1,$$(WORDS)) --n $$(word 2,$$(WORDS)) --probe $(RUN)/$(1)/probe \
		$$(patsubst %,--alpha %,$$(ALPHAS_$$(word 1,$$(WORDS)))) --out $$@

$$(REPORTS_$(1)): $(RUN)/$(1)/certificates/reports/%.json: $(RUN)/$(1)/certificates/%.json $(RUN)/$(1)-calibration-$(ROLLOUTS_$(1)).parquet $(RUN)/$(1)-test.parquet
	@$(RLCM) report-data $$< $$(word 2,$$^) --test $$(word 3,$$^) --questions $(RUN)/test-240-0.jsonl

$(RUN)/evaluation-$(1)/metrics.json: $$(REPORTS_$(1))
	@$(RLCM) eval --data embedded --model $(RUN)/$(1) --out $$(@D)
endef
$(foreach model,embedded embedded-sft,$(eval $(call certified,$(model))))

.SECONDARY:
