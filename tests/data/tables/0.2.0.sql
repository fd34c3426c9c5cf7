BEGIN TRANSACTION;
CREATE TABLE rlcm_calibration_log (
	job INTEGER NOT NULL,
	number INTEGER NOT NULL,
	time DOUBLE NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (job, number),
	FOREIGN KEY(job) REFERENCES rlcm_calibrations (number)
);
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
CREATE TABLE rlcm_certificates (
	id VARCHAR(12) NOT NULL,
	content TEXT NOT NULL,
	origin TEXT NOT NULL,
	added DOUBLE NOT NULL,
	slot VARCHAR(64) NOT NULL,
	state VARCHAR(16) NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE rlcm_exhibits (
	certificate VARCHAR(12) NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (certificate)
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
CREATE TABLE rlcm_schema (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
INSERT INTO "rlcm_schema" VALUES(1);
CREATE INDEX ix_rlcm_calibrations_state ON rlcm_calibrations (state);
CREATE UNIQUE INDEX rlcm_one_active_certificate ON rlcm_certificates (slot) WHERE state = 'active';
COMMIT;
