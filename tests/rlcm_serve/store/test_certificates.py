import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from calibration import FULL_BUDGET, Certificate, ExitPolicy, Kind
from calibration.certificate.wording import covers, does_not_cover
from calibration.errors import CertificateError
from calibration.simulation.risks import SELECTIVE
from rlcm_serve.core import Question, Verified
from rlcm_serve.engine.contract import EngineFacts, EngineIdentity
from rlcm_serve.errors import CertificateMismatch, Conflict, NotFound, SignatureRefused
from rlcm_serve.signing import (
    Envelope,
    TrustedKeys,
    envelope_path,
    load_signing_key,
    sign,
    write_key_pair,
)
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.certificate_table import ACTIVE, STORED, StoredCertificate
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from tests.rlcm_serve.scripted_engine import IDENTITY, certificate
from tests.rlcm_serve.store.test_restoring import fitted, withdraw

OTHER_ENGINE = replace(IDENTITY, model="m1")
FACTUAL = replace(IDENTITY, facts=EngineFacts(dtype="float32"))
HALF = replace(IDENTITY, facts=EngineFacts(dtype="bfloat16"))
QUANTIZED = replace(IDENTITY, facts=EngineFacts(dtype="float32", quantization="fp8"))
EARLY = ExitPolicy(lambda_high=0.9)


def of_one(alpha: float = 0.1) -> Certificate:
    return certificate({alpha: EARLY})


def of_four(alpha: float = 0.1) -> Certificate:
    return certificate({alpha: EARLY}, fingerprint=fingerprint_of(IDENTITY, samples=4))


def saved(made: Certificate, folder: Path, name: str = "one.json") -> Path:
    made.save(folder / name)
    return folder / name


def active(store: CertificateStore) -> set[str]:
    return {kept.certificate.id for kept in store.all([IDENTITY]) if kept.active}


def test_a_service_that_serves_none_leaves_what_others_activate_alone(database: Database) -> None:
    made, others = of_one(), CertificateStore(database)
    own = CertificateStore(database, serves=False)
    own.add(made, "a test")
    others.activate([made.id], [IDENTITY])
    assert active(others) == {made.id}
    assert own.load([IDENTITY], []).certificates == own.current([IDENTITY]).certificates == ()
    assert active(own) == set()


def test_certificate_files_are_active_from_the_start(database: Database, tmp_path: Path) -> None:
    store, made = CertificateStore(database), of_one()
    guarantees = store.load([IDENTITY], [saved(made, tmp_path)])
    assert guarantees.certificates == (made,)
    (kept,) = store.all([IDENTITY])
    assert (kept.origin, kept.added, kept.active, kept.misfit) == (
        "file one.json",
        None,
        True,
        None,
    )
    assert store.get(made.id) == made


def test_a_file_that_does_not_fit_stops_the_start(database: Database, tmp_path: Path) -> None:
    store = CertificateStore(database)
    with pytest.raises(CertificateMismatch, match="model: 'm0' here, 'm1' there"):
        store.load([OTHER_ENGINE], [saved(of_one(), tmp_path)])
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(CertificateError, match=r"broken\.json: not a certificate"):
        store.load([IDENTITY], [broken])


def test_an_added_certificate_is_stored_and_not_active(database: Database) -> None:
    store, made = CertificateStore(database), of_one()
    store.add(made, "upload")
    store.add(made, "a second time")
    assert store.load([IDENTITY], []).certificates == ()
    (kept,) = CertificateStore(database).all([IDENTITY])
    assert kept.certificate == made
    assert (kept.origin, kept.active) == ("upload", False)
    assert kept.added is not None


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the certificates that were read from JSON."""
    ids, read = [], Certificate.from_json

    def noted(data: dict[str, Any]) -> Certificate:
        made = read(data)
        ids.append(made.id)
        return made

    monkeypatch.setattr(Certificate, "from_json", noted)
    return ids


def stored(database: Database, count: int) -> list[Certificate]:
    """So many certificates of one procedure, stored at once."""
    made = [certificate({0.1: ExitPolicy(lambda_high=0.9 - 0.001 * n)}) for n in range(count)]
    CertificateStore(database).add(made[0], "upload")
    with database.session() as session:
        (first,) = session.scalars(select(StoredCertificate))
        session.add_all(
            StoredCertificate(
                id=one.id,
                content=json.dumps(one.to_json()),
                origin=first.origin,
                added=first.added,
                slot=first.slot,
                state=STORED,
            )
            for one in made[1:]
        )
    return made


def test_a_stored_certificate_is_parsed_once_however_many_there_are(
    database: Database, parsed: list[str]
) -> None:
    ids = {made.id for made in stored(database, 300)}
    store = CertificateStore(database)
    for _ in range(3):
        assert {kept.certificate.id for kept in store.all([IDENTITY])} == ids
    assert sorted(parsed) == sorted(ids)


def test_for_one_certificate_no_other_is_parsed_unless_it_is_active(
    database: Database, parsed: list[str]
) -> None:
    active, wanted, other = stored(database, 3)
    CertificateStore(database).activate([active.id], [IDENTITY])
    parsed.clear()
    store = CertificateStore(database)
    assert store.kept(wanted.id, [IDENTITY]) in store.all([IDENTITY])
    assert sorted(parsed) == sorted([active.id, wanted.id, other.id])
    for id_ in (wanted.id, active.id):
        parsed.clear()
        kept = CertificateStore(database).kept(id_, [IDENTITY])
        assert (kept.certificate.id, kept.active) == (id_, id_ == active.id)
        assert set(parsed) == {active.id, id_}


def test_a_certificate_that_is_no_longer_stored_is_forgotten(database: Database) -> None:
    store, (kept, deleted) = CertificateStore(database), stored(database, 2)
    assert len(store.all([IDENTITY])) == 2
    with database.session() as session:
        session.execute(delete(StoredCertificate).where(StoredCertificate.id == deleted.id))
    assert [one.certificate.id for one in store.all([IDENTITY])] == [kept.id]
    assert store._read.ids == {kept.id}


def test_certificates_are_read_before_an_activation_holds_up_other_writers(
    database: Database, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a withdrawal all of them count, and reading many takes long."""
    withdraw(database, stored(database, 3)[0])
    fresh = fitted(0.01, 0.5)
    CertificateStore(database).add(fresh, "upload")
    store, held = CertificateStore(database), CertificateStore._take_turns
    before: list[str] = []

    def take_turns(store: CertificateStore, session: Session) -> None:
        held(store, session)
        before.extend(parsed)

    monkeypatch.setattr(CertificateStore, "_take_turns", take_turns)
    parsed.clear()
    assert store.activate([fresh.id], [IDENTITY]).certificates == (fresh,)
    assert (len(before), before) == (4, parsed)


def test_an_activated_certificate_takes_the_place_of_the_file_and_outlives_a_restart(
    database: Database, tmp_path: Path
) -> None:
    file, better, four = saved(of_one(), tmp_path), of_one(0.05), of_four()
    store = CertificateStore(database)
    store.load([IDENTITY], [file])
    store.add(better, "upload")
    store.add(four, "upload")
    assert store.activate([better.id], [IDENTITY]).certificates == (better,)
    assert {*store.activate([four.id], [IDENTITY]).certificates} == {better, four}
    again = CertificateStore(database)
    assert {*again.load([IDENTITY], [file]).certificates} == {better, four}
    assert active(again) == {better.id, four.id}


def test_activating_one_ends_the_other_of_its_procedure(database: Database) -> None:
    store, first, second = CertificateStore(database), of_one(0.1), of_one(0.2)
    for made in (first, second):
        store.add(made, "upload")
    for made in (first, second, second, first):
        assert store.activate([made.id], [IDENTITY]).certificates == (made,)
        assert active(store) == {made.id}


def test_several_are_activated_together_or_not_at_all(database: Database) -> None:
    store, first, second = CertificateStore(database), of_one(), of_four()
    elsewhere = of(OTHER_ENGINE)
    for made in (first, second, elsewhere):
        store.add(made, "upload")
    with pytest.raises(CertificateMismatch, match="model"):
        store.activate([first.id, elsewhere.id], [IDENTITY])

    def refuse(session: Session) -> None:
        raise Conflict("the job was cancelled")

    with pytest.raises(Conflict, match="was cancelled"):
        store.activate([first.id, second.id], [IDENTITY], refuse)
    assert active(store) == set()
    together = store.activate([first.id, second.id], [IDENTITY])
    assert {*together.certificates} == {first, second}


def test_after_a_deactivation_the_file_is_served_again(database: Database, tmp_path: Path) -> None:
    store, made = CertificateStore(database), of_one(0.05)
    file = saved(of_one(), tmp_path)
    store.load([IDENTITY], [file])
    store.add(made, "upload")
    store.activate([made.id], [IDENTITY])
    assert store.deactivate(made.id, [IDENTITY]).certificates == (of_one(),)
    with pytest.raises(Conflict, match="is not active"):
        store.deactivate(made.id, [IDENTITY])


def test_a_certificate_file_can_be_deactivated_and_activated_again(
    database: Database, tmp_path: Path
) -> None:
    store, made = CertificateStore(database), of_one()
    file = saved(made, tmp_path)
    store.load([IDENTITY], [file])
    assert store.deactivate(made.id, [IDENTITY]).certificates == ()
    again = CertificateStore(database)
    assert again.load([IDENTITY], [file]).certificates == ()
    assert again.activate([made.id], [IDENTITY]).certificates == (made,)
    assert again.load([IDENTITY], [file]).certificates == (made,)


def test_a_certificate_file_that_was_uploaded_before_is_active(
    database: Database, tmp_path: Path
) -> None:
    store, made = CertificateStore(database), of_one()
    store.add(made, "upload")
    assert store.load([IDENTITY], [saved(made, tmp_path)]).certificates == (made,)


def test_two_files_of_one_procedure_are_refused_unless_one_was_activated(
    database: Database, tmp_path: Path
) -> None:
    store = CertificateStore(database)
    files = [saved(of_one(0.1), tmp_path, "a.json"), saved(of_one(0.2), tmp_path, "b.json")]
    with pytest.raises(CertificateMismatch, match="for the same procedure"):
        store.load([IDENTITY], files)
    store.add(of_one(0.3), "upload")
    store.activate([of_one(0.3).id], [IDENTITY])
    assert store.load([IDENTITY], files).certificates == (of_one(0.3),)
    with pytest.raises(CertificateMismatch, match="for the same procedure"):
        store.deactivate(of_one(0.3).id, [IDENTITY])
    assert active(store) == {of_one(0.3).id}, "what fails changes nothing"


def test_of_two_files_of_one_procedure_none_is_served_once_another_process_deactivates(
    database: Database, tmp_path: Path
) -> None:
    """An error would keep what is deactivated, and every later withdrawal from this process."""
    files = [saved(of_one(0.1), tmp_path, "a.json"), saved(of_one(0.2), tmp_path, "b.json")]
    store, other = CertificateStore(database), CertificateStore(database)
    other.add(of_one(0.3), "upload")
    other.activate([of_one(0.3).id], [IDENTITY])
    assert store.load([IDENTITY], files).certificates == (of_one(0.3),)
    other.deactivate(of_one(0.3).id, [IDENTITY])
    guarantees = store.current([IDENTITY])
    assert guarantees.certificates == ()
    reason = guarantees.terms_for(Question("2 + 2?", alpha=0.1)).no_guarantee_reason
    assert "several certificate files for its procedure: activate one" in (reason or "")


def test_each_engine_has_its_own_activated_certificates(database: Database) -> None:
    here = of_one()
    there = certificate({0.1: EARLY}, fingerprint=fingerprint_of(OTHER_ENGINE))
    store = CertificateStore(database)
    for made, identity in ((here, IDENTITY), (there, OTHER_ENGINE)):
        store.add(made, "upload")
        assert store.activate([made.id], [identity]).certificates == (made,)
    assert store.load([IDENTITY], []).certificates == (here,)
    assert store.load([OTHER_ENGINE], []).certificates == (there,)
    misfits = {kept.certificate.id: kept.misfit for kept in store.all([IDENTITY])}
    assert misfits[here.id] is None
    assert "model: 'm1' here, 'm0' there" in (misfits[there.id] or "")
    assert {kept.misfit for kept in store.all(None)} == {None}
    with pytest.raises(CertificateMismatch, match="model"):
        store.activate([there.id], [IDENTITY])
    assert active(store) == {here.id}


def test_an_engine_that_computes_other_numbers_voids_the_guarantee(database: Database) -> None:
    same = certificate({0.1: EARLY}, fingerprint=fingerprint_of(FACTUAL))
    store = CertificateStore(database)
    store.add(same, "upload")
    assert [kept.voided for kept in store.all([FACTUAL])] == [None]
    (kept,) = store.all([replace(FACTUAL, facts=replace(FACTUAL.facts, dtype="float16"))])
    assert kept.misfit is None
    assert (kept.voided or "").startswith("dtype is float16, the certified value is float32; start")
    assert [kept.voided for kept in store.all(None)] == [None]


def of(identity: EngineIdentity) -> Certificate:
    return certificate({0.1: EARLY}, fingerprint=fingerprint_of(identity))


def test_engines_of_two_dtypes_share_a_database_and_each_serves_its_own(
    database: Database, tmp_path: Path
) -> None:
    store = CertificateStore(database)
    for identity in (FACTUAL, HALF):
        store.add(of(identity), "job")
    assert store.activate([of(FACTUAL).id], [FACTUAL]).given == {of(FACTUAL).id}
    voided = store.load([HALF], [])
    assert (voided.certificates, voided.given) == ((of(FACTUAL),), frozenset())
    by_file = CertificateStore(database).load([HALF], [saved(of(HALF), tmp_path)])
    assert by_file.certificates == (of(HALF),), "a file that gives a guarantee goes first"
    store.require_activable(of(HALF).id, [HALF])
    assert store.activate([of(HALF).id], [HALF]).given == {of(HALF).id}
    for identity in (FACTUAL, HALF):
        current = store.current([identity])
        assert current.certificates == (of(identity),)
        assert current.given == {of(identity).id}


def test_what_gives_no_guarantee_here_does_not_replace_what_does(database: Database) -> None:
    store = CertificateStore(database)
    for identity in (FACTUAL, HALF):
        store.add(of(identity), "job")
    store.activate([of(FACTUAL).id], [FACTUAL])
    for tried in (
        lambda: store.require_activable(of(HALF).id, [FACTUAL]),
        lambda: store.activate([of(HALF).id], [FACTUAL]),
    ):
        with pytest.raises(CertificateMismatch, match=r"have the guarantee of .*: dtype is"):
            tried()
    assert store.current([FACTUAL]).given == {of(FACTUAL).id}


def test_of_certificates_that_are_void_here_one_is_served(database: Database) -> None:
    """Two other engines activated theirs; their policies serve here, without a guarantee."""
    store = CertificateStore(database)
    for identity in (HALF, QUANTIZED):
        store.add(of(identity), "job")
        store.activate([of(identity).id], [identity])
    guarantees = store.load([FACTUAL], [])
    assert (len(guarantees.certificates), guarantees.given) == (1, frozenset())


def test_what_no_engine_can_be_held_to_is_refused(database: Database) -> None:
    store = CertificateStore(database)
    with pytest.raises(CertificateMismatch, match="not servable"):
        store.add(certificate({0.1: FULL_BUDGET}, fingerprint=None), "upload")


def test_unknown_certificates_are_not_found(database: Database) -> None:
    store = CertificateStore(database)
    for attempt in (
        lambda: store.get("nobody"),
        lambda: store.kept("nobody", [IDENTITY]),
        lambda: store.activate(["nobody"], [IDENTITY]),
        lambda: store.deactivate("nobody", [IDENTITY]),
    ):
        with pytest.raises(NotFound, match="no certificate 'nobody'"):
            attempt()


def test_what_is_kept_is_the_certificate_to_the_last_digit(database: Database) -> None:
    made = certificate({1 / 3: replace(EARLY, lambda_answer=0.1 + 0.2)})
    store = CertificateStore(database)
    store.add(made, "upload: “naïve” 😀")
    assert json.dumps(store.get(made.id).to_json()) == json.dumps(made.to_json())
    assert store.kept(made.id, None).origin == "upload: “naïve” 😀"


def test_a_forgery_that_an_earlier_release_took_is_neither_served_nor_in_the_way(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    store, made = CertificateStore(database), of_one()
    (level,) = made.levels
    forged = replace(made, levels=(replace(level, alpha=0.001, p_value=0.9),))
    for one in (forged, of_four()):
        store.add(one, "upload")
    with database.session() as session:
        session.execute(update(StoredCertificate).values(state=ACTIVE))
    assert store.load([IDENTITY], []).certificates == (of_four(),)
    assert active(store) == {of_four().id}
    assert f"the stored certificate {forged.id} is refused: the certificate contr" in caplog.text
    with pytest.raises(NotFound, match=r"levels\[0\]\.p_value is 0\.9, and must be"):
        store.activate([forged.id], [IDENTITY])


@pytest.fixture
def signing(tmp_path: Path) -> Path:
    write_key_pair(tmp_path / "signing.pem")
    return tmp_path / "signing.pem"


def signed(made: Certificate, signing: Path) -> Envelope:
    return sign(made, load_signing_key(signing))


def trust(signing: Path, *, required: bool = False) -> TrustedKeys:
    return TrustedKeys.load([signing.with_suffix(".pub.pem")], required)


def verified(store: CertificateStore, made: Certificate) -> Verified:
    kept = store.kept(made.id, [IDENTITY])
    if kept.active:
        assert store.load([IDENTITY], []).verified(made.id) is kept.verified
    return kept.verified


def test_processes_that_store_the_same_certificate_at_once_agree(database: Database) -> None:
    """Replicas that start with a certificate to rehearse all do."""
    made = [certificate({0.1: ExitPolicy(lambda_high=0.9 - 0.01 * n)}) for n in range(10)]
    stores = [CertificateStore(database) for _ in range(6)]

    def store_all(store: CertificateStore) -> None:
        for one in made:
            store.add(one, "file", recomputed=True)

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(store_all, stores))
    assert {kept.certificate.id for kept in stores[0].all(None)} == {one.id for one in made}


def test_traces_say_more_than_a_signature_and_both_outlive_a_restart(
    database: Database, signing: Path
) -> None:
    store, made = CertificateStore(database, trust(signing)), of_one()
    store.add(made, "upload")
    store.activate([made.id], [IDENTITY])
    assert verified(store, made) is Verified.NONE
    store.add(made, "upload", envelope=signed(made, signing))
    assert verified(store, made) is Verified.SIGNATURE
    assert verified(CertificateStore(database), made) is Verified.NONE, "nobody is trusted"
    store.add(made, "upload", recomputed=True)
    store.add(made, "upload")
    assert verified(CertificateStore(database, trust(signing)), made) is Verified.TRACES


@pytest.mark.parametrize("origin", ["job cal_5f3a9c21d07e", "upload, recomputed from its traces"])
def test_what_earlier_releases_computed_from_traces_still_counts(
    database: Database, origin: str
) -> None:
    store = CertificateStore(database)
    store.add(of_one(), origin)
    assert verified(store, of_one()) is Verified.TRACES


def test_where_a_signature_is_demanded_nothing_else_is_served(
    database: Database, tmp_path: Path, signing: Path
) -> None:
    """Neither what was active before, nor a file, nor what a job has fitted."""
    file, stored, four = saved(of_one(), tmp_path), of_one(0.05), of_four()
    before = CertificateStore(database)
    for made in (stored, four):
        before.add(made, "job cal_1", recomputed=True)
        before.activate([made.id], [IDENTITY])
    store = CertificateStore(database, trust(signing, required=True))
    guarantees = store.load([IDENTITY], [file])
    assert guarantees.certificates == ()
    assert {*guarantees.unsigned} == {of_one().id, stored.id, four.id}
    assert "demands signed certificates" in (
        guarantees.terms_for(Question("1 + 1?", alpha=0.1)).no_guarantee_reason or ""
    )
    for made in (of_one(), stored, four):
        assert "has no signature" in (store.kept(made.id, [IDENTITY]).refusal or "")
        with pytest.raises(SignatureRefused, match=f"certificate {made.id} has no signature"):
            store.activate([made.id], [IDENTITY])
    store.add(four, "upload", envelope=signed(four, signing))
    assert store.load([IDENTITY], [file]).certificates == (four,)
    envelope_path(file).write_text(signed(of_one(), signing).to_text())
    assert {*store.load([IDENTITY], [file]).certificates} == {four, of_one()}


def test_a_bad_signature_file_is_no_signature(
    database: Database, tmp_path: Path, signing: Path
) -> None:
    file = saved(of_one(), tmp_path)
    store = CertificateStore(database, trust(signing, required=True))
    for text, why in [
        ("{}", "is not a DSSE envelope"),
        (signed(of_one(0.2), signing).to_text(), "is for certificate"),
    ]:
        envelope_path(file).write_text(text)
        assert store.load([IDENTITY], [file]).certificates == ()
        assert why in (store.kept(of_one().id, [IDENTITY]).refusal or "")


def of_fit(kinds: tuple[str, ...], pooled: tuple[str, ...], name: str | None) -> Certificate:
    """The certificate of one kind, or of all, in a fit that gave `kinds` one of their own."""
    kind = Kind("topic", name, kinds, pooled, 0.2)
    made = certificate({0.1: ExitPolicy(lambda_high=0.9)}, delta=kind.own_delta)
    return replace(
        made,
        kind=kind,
        covers=covers(SELECTIVE, kind.delta, made.promise, made.p_value, of_kind=kind),
        does_not_cover=does_not_cover(SELECTIVE, of_kind=kind),
    )


def test_a_file_that_an_earlier_fit_of_kinds_left_is_not_served(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = of_fit(("algebra", "sets"), (), "sets")
    new = [of_fit(("algebra",), ("sets",), name) for name in (None, "algebra")]
    files = [saved(one, tmp_path, f"{one.about}.json") for one in (*new, old)]
    guarantees = CertificateStore(database).load([IDENTITY], files)
    assert guarantees.certificates == tuple(new)
    assert f"certificate {old.id} is not served: its kind 'sets' was fitted at another" in (
        caplog.text
    )
    terms = guarantees.terms_for(Question("2 + 2?", alpha=0.1, kind="sets"))
    assert terms.guarantee is not None
    assert terms.guarantee.certificate == new[0].id


@pytest.mark.parametrize("has_alarmed", [False, True])
def test_a_kind_that_a_new_fit_pools_leaves_the_certificate_of_the_old_fit(
    database: Database, has_alarmed: bool
) -> None:
    """Certificates of two fits do not hold together. A withdrawn one is not got rid of this way."""
    store, names = CertificateStore(database), (None, "algebra", "sets")
    first = [of_fit(("algebra", "sets"), (), name) for name in names]
    second = [of_fit(("algebra",), ("sets",), name) for name in names[:2]]
    for made in (*first, *second):
        store.add(made, "a test")
    for made in first:
        store.activate([made.id], [IDENTITY])
    if has_alarmed:
        withdraw(database, first[2])
    for made in second:
        guarantees = store.activate([made.id], [IDENTITY])
    left = {first[2].id} if has_alarmed else set()
    assert {one.id for one in guarantees.certificates} == {one.id for one in second} | left
