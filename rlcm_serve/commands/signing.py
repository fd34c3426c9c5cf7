"""`rlcm keys new-signing-key` and `rlcm keys sign`: signatures on certificates.

Signing keys are files of whoever signs. They are no API keys and open no service.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlcm_serve.commands.options import JsonOption
from rlcm_serve.terminal import print_result

PANEL = "Signing keys (for certificates)"


def new_signing_key(
    out: Annotated[Path, typer.Option(help="File for the private key, such as signing.pem.")],
    as_json: JsonOption = False,
) -> None:
    """Create a key pair to sign certificates with. It is no API key.

    The private key can be read only by you. The public key is beside it, as NAME.pub.pem.
    """
    from rlcm_serve.signing import write_key_pair

    public, id_ = write_key_pair(out)
    print_result(
        {"key": id_, "private": out, "public": public},
        f"signing key {id_}: {out} is private, keep it secret; {public} is public, for "
        "`rlcm verify --public-key` and the setting trusted_keys",
        as_json=as_json,
    )


def sign(
    certificate: Annotated[
        Path, typer.Argument(help="Certificate file, written by `rlcm fit`.", show_default=False)
    ],
    key: Annotated[
        Path, typer.Option(help="Private key, from `rlcm keys new-signing-key`; not an API key.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Sign a certificate. The signature is a file of its own, NAME.dsse.json beside NAME.json.

    The certificate itself does not change. An earlier signature file is replaced.
    """
    from calibration import Certificate
    from calibration.files import write_text
    from rlcm_serve.signing import envelope_path, key_id, load_signing_key
    from rlcm_serve.signing import sign as signed

    loaded, signing_key = Certificate.load(certificate), load_signing_key(key)
    written = envelope_path(certificate)
    write_text(written, signed(loaded, signing_key).to_text())
    id_ = key_id(signing_key.public_key())
    print_result(
        {"certificate": loaded.id, "key": id_, "signature": written},
        f"certificate {loaded.id} is signed with key {id_}: {written}",
        as_json=as_json,
    )
