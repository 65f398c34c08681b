"""Images that show little: blurred, dark, overexposed, blank."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_jobs.audit.audited_set import AuditedSet, Float64Array
from beam_jobs.audit.checks.base import Check, below

# Percentiles of the grey level by mean and standard deviation, as of a normal distribution.
_PERCENTILE_99, _PERCENTILE_5 = 2.326, -1.645


def _sharpness(audited: AuditedSet, threshold: float) -> pa.Table | None:
    """Edges by contrast, so that neither a flat subject nor a dim light counts as blur."""
    sharpness, contrast = audited.numbers("sharpness"), audited.numbers("contrast")
    if sharpness is None or contrast is None:
        return None
    variance = np.square(255 * contrast)
    ratio = np.full(len(variance), np.nan)  # of a blank image
    np.divide(sharpness, variance, out=ratio, where=variance > 0)
    return below(ratio, threshold)


def _percentile(audited: AuditedSet, deviations: float) -> Float64Array | None:
    brightness, contrast = audited.numbers("brightness"), audited.numbers("contrast")
    if brightness is None or contrast is None:
        return None
    return np.clip(brightness + deviations * contrast, 0, 1)


def _darkness(audited: AuditedSet, threshold: float) -> pa.Table | None:
    return below(_percentile(audited, _PERCENTILE_99), threshold)


def _overexposure(audited: AuditedSet, threshold: float) -> pa.Table | None:
    lightest = _percentile(audited, _PERCENTILE_5)
    return None if lightest is None else below(1 - lightest, threshold)


# Of 560 photographs of clothing, 224 pixels high, 2 have less than 0.01; blurred by a Gaussian of 2
# pixels, 90 of 100 have. The bounds of dark and overexposed are those of CleanVision 0.3.7, which
# takes the percentiles themselves. The deviation of a blank image is that of `--blank`: noise of a
# sensor or of JPEG with a closed shutter has less than 3 of 255 grey levels, photographs of flat
# things have 10 and more.
BLURRED = Check(
    "Blurred images",
    "The variance of the Laplacian is less than {0:g} of the variance of the grey level.",
    0.01,
    _sharpness,
)
DARK = Check(
    "Dark images",
    "The grey level of the lightest pixels (99th percentile, of 0 to 1) is below {0:g}.",
    0.32,
    _darkness,
)
OVEREXPOSED = Check(
    "Overexposed images",
    "The grey level of the darkest pixels (5th percentile) is less than {0:g} below white.",
    0.05,
    _overexposure,
)
BLANK = Check(
    "Blank images",
    "The standard deviation of the grey level (0 to 0.5) is below {0:g}.",
    0.012,
    lambda audited, threshold: below(audited.numbers("contrast"), threshold),
)
