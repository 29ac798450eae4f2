from tests.apps.chromium import browser as browser
from tests.ops.cli.conftest import cli as cli
from tests.ops.web.fix_mall import any_mall as any_mall
from tests.ops.web.fix_shop import any_shop as any_shop
from tests.ops.web.fix_shop import small_shop as small_shop
