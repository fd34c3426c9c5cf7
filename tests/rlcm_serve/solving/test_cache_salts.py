from rlcm_serve.solving.cache_salts import CacheSalts


def test_each_key_has_a_salt_of_its_own_that_stays() -> None:
    salts = CacheSalts()
    found = [salts.of(owner) for owner in (None, "0a1b2c3d", "ffffffff")]
    assert len({*found}) == 3
    assert found == [salts.of(owner) for owner in (None, "0a1b2c3d", "ffffffff")]


def test_a_group_shares_a_salt_that_no_key_has() -> None:
    salts = CacheSalts()
    assert salts.of("0a1b2c3d", "team") == salts.of("ffffffff", "team")
    others = {salts.of("0a1b2c3d", "other"), salts.of("0a1b2c3d"), salts.of("team")}
    assert salts.of("0a1b2c3d", "team") not in others


def test_all_keys_may_share_one_salt() -> None:
    salts = CacheSalts(shared=True)
    assert len({salts.of("0a1b2c3d"), salts.of("ffffffff", "team"), salts.of(None)}) == 1


def test_who_knows_the_id_of_a_key_cannot_compute_its_salt() -> None:
    assert CacheSalts().of("0a1b2c3d") != CacheSalts().of("0a1b2c3d")
