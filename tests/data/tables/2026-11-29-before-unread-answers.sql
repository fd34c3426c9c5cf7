CREATE TABLE rlcm_answering (
	process VARCHAR(16) NOT NULL,
	mark DOUBLE NOT NULL,
	until DOUBLE NOT NULL,
	PRIMARY KEY (process)
);
CREATE TABLE rlcm_answers (
	sequence INTEGER NOT NULL,
	id VARCHAR(64) NOT NULL,
	key_id VARCHAR(16),
	started DOUBLE NOT NULL,
	time DOUBLE NOT NULL,
	profile TEXT NOT NULL,
	kind TEXT,
	certificate VARCHAR(64),
	alpha DOUBLE,
	risk TEXT NOT NULL,
	answered BOOLEAN NOT NULL,
	confidence DOUBLE NOT NULL,
	tokens BIGINT NOT NULL,
	familiarity DOUBLE,
	audited BOOLEAN NOT NULL,
	audit_share DOUBLE NOT NULL,
	due DOUBLE NOT NULL,
	"right" BOOLEAN,
	labelled DOUBLE,
	reported BOOLEAN,
	answer_digest BLOB,
	question TEXT,
	answer TEXT,
	question_digest BLOB,
	departs BOOLEAN,
	setup VARCHAR(64),
	grader TEXT,
	PRIMARY KEY (sequence),
	UNIQUE (id)
);
CREATE INDEX rlcm_answers_declined ON rlcm_answers (started) WHERE audited AND NOT answered AND labelled IS NULL;
CREATE INDEX rlcm_answers_level ON rlcm_answers (certificate, alpha, started, sequence) WHERE certificate IS NOT NULL;
CREATE INDEX rlcm_answers_question ON rlcm_answers (certificate, question_digest, started, sequence) WHERE certificate IS NOT NULL;
CREATE INDEX rlcm_answers_time ON rlcm_answers (time);
CREATE INDEX rlcm_answers_waiting ON rlcm_answers (due) WHERE audited AND answered AND labelled IS NULL;
CREATE TABLE rlcm_betting (
	name VARCHAR(16) NOT NULL,
	holder VARCHAR(16) NOT NULL,
	until DOUBLE NOT NULL,
	looked DOUBLE NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE rlcm_budgets (
	key_id VARCHAR(16) NOT NULL,
	kind VARCHAR(16) NOT NULL,
	level DOUBLE NOT NULL,
	at DOUBLE NOT NULL,
	PRIMARY KEY (key_id, kind)
);
CREATE TABLE rlcm_calibration_kind_certificates (
	job INTEGER NOT NULL,
	certificate VARCHAR(12) NOT NULL,
	kind TEXT NOT NULL,
	PRIMARY KEY (job, certificate),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
CREATE TABLE rlcm_calibration_kinds (
	job INTEGER NOT NULL,
	"index" INTEGER NOT NULL,
	kind TEXT NOT NULL,
	PRIMARY KEY (job, "index"),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
CREATE TABLE rlcm_calibration_leases (
	job INTEGER NOT NULL,
	holder VARCHAR(16) NOT NULL,
	until DOUBLE NOT NULL,
	PRIMARY KEY (job),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
CREATE TABLE rlcm_calibration_log (
	job INTEGER NOT NULL,
	number INTEGER NOT NULL,
	time DOUBLE NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (job, number),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
CREATE TABLE rlcm_calibration_owners (
	id VARCHAR(32) NOT NULL,
	"key" VARCHAR(16) NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE rlcm_calibration_posts (
	place VARCHAR(64) NOT NULL,
	digest VARCHAR(64) NOT NULL,
	job VARCHAR(32) NOT NULL,
	until DOUBLE NOT NULL,
	PRIMARY KEY (place)
);
CREATE INDEX ix_rlcm_calibration_posts_until ON rlcm_calibration_posts (until);
CREATE TABLE rlcm_calibration_problems (
	job INTEGER NOT NULL,
	"index" INTEGER NOT NULL,
	id TEXT NOT NULL,
	problem TEXT NOT NULL,
	answer TEXT NOT NULL,
	"group" TEXT,
	PRIMARY KEY (job, "index"),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
CREATE TABLE rlcm_calibration_recordings (
	job INTEGER NOT NULL,
	problem INTEGER NOT NULL,
	rollout INTEGER NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (job, problem, rollout),
	FOREIGN KEY(job, problem) REFERENCES rlcm_calibration_problems (job, "index")
);
CREATE TABLE rlcm_calibration_traces (
	job INTEGER NOT NULL,
	parquet BLOB NOT NULL,
	PRIMARY KEY (job),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
CREATE TABLE rlcm_calibrations (
	number INTEGER NOT NULL,
	id VARCHAR(32) NOT NULL,
	state VARCHAR(16) NOT NULL,
	asked TEXT NOT NULL,
	n_problems INTEGER NOT NULL,
	created DOUBLE NOT NULL,
	started DOUBLE,
	finished DOUBLE,
	fingerprint TEXT,
	certificate VARCHAR(12),
	error TEXT,
	PRIMARY KEY (number),
	UNIQUE (id)
);
CREATE INDEX ix_rlcm_calibrations_state ON rlcm_calibrations (state);
CREATE TABLE rlcm_certificate_evidence (
	digest VARCHAR(64) NOT NULL,
	recomputed BOOLEAN NOT NULL,
	envelope TEXT,
	PRIMARY KEY (digest)
);
CREATE TABLE rlcm_certificates (
	id VARCHAR(12) NOT NULL,
	content TEXT NOT NULL,
	origin TEXT NOT NULL,
	added DOUBLE NOT NULL,
	slot VARCHAR(64) NOT NULL,
	state VARCHAR(16) NOT NULL,
	PRIMARY KEY (id)
);
CREATE UNIQUE INDEX rlcm_one_active_certificate ON rlcm_certificates (slot) WHERE state = 'active';
CREATE TABLE rlcm_exhibits (
	certificate VARCHAR(12) NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (certificate)
);
CREATE TABLE rlcm_key_terms (
	id VARCHAR(16) NOT NULL,
	requests_per_minute BIGINT,
	tokens_per_minute BIGINT,
	weight DOUBLE,
	cache_group VARCHAR(64),
	PRIMARY KEY (id)
);
CREATE TABLE rlcm_keys (
	id VARCHAR(16) NOT NULL,
	digest VARCHAR(64) NOT NULL,
	name VARCHAR(200) NOT NULL,
	scopes VARCHAR(64) NOT NULL,
	created VARCHAR(32) NOT NULL,
	last_used VARCHAR(10),
	revoked VARCHAR(32),
	max_n INTEGER,
	max_tokens BIGINT,
	max_body_bytes BIGINT,
	timeout_s DOUBLE,
	max_running INTEGER,
	PRIMARY KEY (id)
);
CREATE TABLE rlcm_label_counts (
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE NOT NULL,
	audited BIGINT NOT NULL,
	"right" BIGINT NOT NULL,
	wrong BIGINT NOT NULL,
	late BIGINT NOT NULL,
	others_right BIGINT NOT NULL,
	others_wrong BIGINT NOT NULL,
	overdue BIGINT NOT NULL,
	overdue_at DOUBLE NOT NULL,
	PRIMARY KEY (certificate, alpha)
);
CREATE TABLE rlcm_labels (
	number INTEGER NOT NULL,
	sequence INTEGER NOT NULL,
	"right" BOOLEAN NOT NULL,
	trusted BOOLEAN DEFAULT 1 NOT NULL,
	key_id VARCHAR(16),
	time DOUBLE NOT NULL,
	reference TEXT,
	PRIMARY KEY (number),
	FOREIGN KEY(sequence) REFERENCES rlcm_answers (sequence)
);
CREATE INDEX rlcm_labels_last ON rlcm_labels (sequence, trusted, number);
CREATE TABLE rlcm_monitor_events (
	number INTEGER NOT NULL,
	time DOUBLE NOT NULL,
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE,
	what VARCHAR(16) NOT NULL,
	text TEXT NOT NULL,
	figures TEXT NOT NULL,
	action VARCHAR(16) NOT NULL,
	hook VARCHAR(16) NOT NULL,
	PRIMARY KEY (number)
);
CREATE INDEX ix_rlcm_monitor_events_hook ON rlcm_monitor_events (hook);
CREATE TABLE rlcm_monitor_history (
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE NOT NULL,
	time DOUBLE NOT NULL,
	figures TEXT NOT NULL,
	PRIMARY KEY (certificate, alpha, time)
);
CREATE TABLE rlcm_monitors (
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE NOT NULL,
	what VARCHAR(8) NOT NULL,
	risk TEXT NOT NULL,
	delta DOUBLE NOT NULL,
	reference TEXT NOT NULL,
	started DOUBLE NOT NULL,
	sequence BIGINT NOT NULL,
	state TEXT NOT NULL,
	alarmed DOUBLE,
	slot VARCHAR(64) NOT NULL,
	whole_delta DOUBLE NOT NULL,
	PRIMARY KEY (certificate, alpha, what)
);
CREATE TABLE rlcm_rehearsals (
	certificate VARCHAR(64) NOT NULL,
	started DOUBLE NOT NULL,
	started_by VARCHAR(16),
	ended DOUBLE,
	PRIMARY KEY (certificate)
);
CREATE TABLE rlcm_rehearsed (
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE NOT NULL,
	id VARCHAR(64) NOT NULL,
	tokens BIGINT NOT NULL,
	tokens_at_least BIGINT NOT NULL,
	undecided BOOLEAN NOT NULL,
	answers BOOLEAN,
	stop INTEGER,
	agrees BOOLEAN,
	sequence BIGINT,
	has_place BOOLEAN,
	PRIMARY KEY (certificate, alpha, id)
);
CREATE INDEX ix_rlcm_rehearsed_id ON rlcm_rehearsed (id);
CREATE INDEX rlcm_rehearsed_level ON rlcm_rehearsed (certificate, alpha, sequence);
CREATE TABLE rlcm_schema (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
CREATE TABLE rlcm_secrets (
	name VARCHAR(32) NOT NULL,
	secret BLOB NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE rlcm_shadow_counts (
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE NOT NULL,
	drawn BIGINT NOT NULL,
	dropped BIGINT NOT NULL,
	missing BIGINT NOT NULL,
	agree BIGINT NOT NULL,
	disagree BIGINT NOT NULL,
	PRIMARY KEY (certificate, alpha)
);
CREATE TABLE rlcm_shadows (
	id VARCHAR(64) NOT NULL,
	certificate VARCHAR(64) NOT NULL,
	alpha DOUBLE NOT NULL,
	share DOUBLE NOT NULL,
	drawn BOOLEAN NOT NULL,
	due DOUBLE NOT NULL,
	ended DOUBLE,
	disagrees BOOLEAN,
	tokens INTEGER,
	full_answer TEXT,
	full_right BOOLEAN,
	PRIMARY KEY (id)
);
CREATE INDEX rlcm_shadows_open ON rlcm_shadows (due) WHERE drawn AND share > 0 AND ended IS NULL;
CREATE INDEX rlcm_shadows_ungraded ON rlcm_shadows (id) WHERE disagrees AND full_right IS NULL AND full_answer IS NOT NULL;
CREATE TABLE rlcm_smaller_levels (
	certificate VARCHAR(64) NOT NULL,
	below DOUBLE NOT NULL,
	PRIMARY KEY (certificate)
);
CREATE TABLE rlcm_unanswered (
	digest BLOB NOT NULL,
	key_id VARCHAR(16) NOT NULL,
	asked DOUBLE NOT NULL,
	PRIMARY KEY (digest)
);
CREATE INDEX rlcm_unanswered_asked ON rlcm_unanswered (asked);
CREATE INDEX rlcm_unanswered_key ON rlcm_unanswered (key_id, asked);
CREATE TABLE rlcm_withdrawn_certificates (
	certificate VARCHAR(64) NOT NULL,
	slot VARCHAR(64) NOT NULL,
	delta DOUBLE NOT NULL,
	time DOUBLE NOT NULL,
	why TEXT NOT NULL,
	restored DOUBLE,
	restored_by VARCHAR(16),
	PRIMARY KEY (certificate)
);
CREATE INDEX ix_rlcm_withdrawn_certificates_slot ON rlcm_withdrawn_certificates (slot);
