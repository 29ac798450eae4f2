"""Models are data (note 001: images and videos): what KIE is asked for, and how the result goes to its user."""

import asyncio
from pathlib import Path

import pytest

from imagebot.models import CATALOGUE, catalogue
from imagebot.settings import Settings
from tests.apps.imagebot.conftest import USER, World, until
from tests.apps.imagebot.test_bot import balance, ended

OWN = """
my/painter:
  kind: image
  longest_prompt: 20
  format: {field: size, values: {wide: 1024x512, high: 512x1024}}
  input: {steps: 4}
"""


def test_what_kie_is_asked_for_comes_from_the_catalogue() -> None:
    listed = catalogue()
    assert listed["z-image"].asked("a cat", "16:9") == {"prompt": "a cat", "aspect_ratio": "16:9"}
    assert listed["google/nano-banana"].asked("a cat", "3:4") == {
        "prompt": "a cat",
        "image_size": "3:4",
        "output_format": "png",
    }
    assert listed["sora-2-text-to-video"].asked("a cat", "9:16") == {
        "prompt": "a cat",
        "aspect_ratio": "portrait",
        "n_frames": "10",
        "remove_watermark": True,
    }
    assert {one.kind for one in listed.values()} == {"image", "video"}
    assert CATALOGUE.exists()


def test_a_format_that_a_model_does_not_know_any_more_is_its_first() -> None:
    assert catalogue()["sora-2-text-to-video"].asked("a cat", "4:3")["aspect_ratio"] == "landscape"


def test_an_operator_adds_models_by_a_file_and_a_wrong_one_is_refused_at_start(tmp_path: Path) -> None:
    own = tmp_path / "models.yaml"
    own.write_text(OWN)
    settings = Settings(models={"my/painter": 300}, models_file=own)
    model = settings.model("my/painter")
    assert model is not None
    assert model.asked("a cat", "high") == {"prompt": "a cat", "size": "512x1024", "steps": 4}
    with pytest.raises(ValueError, match="my/painter is neither in"):
        Settings(models={"my/painter": 300})
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(OWN.replace("kind: image", "kind: song"))
    with pytest.raises(ValueError, match="kind"):
        Settings(models={"z-image": 300}, models_file=wrong)


async def test_a_video_is_ordered_made_and_sent_as_a_video(world: World) -> None:
    await world.start("one", MODELS='{"sora-2-text-to-video": 900, "z-image": 500}')
    await world.press_menu("new")
    await world.press("model|")  # the newest row that begins so is the first model
    found = await until(lambda: world.button("ratio|"), "the formats")
    rows = world.telegram.chat(USER).messages[-1]["reply_markup"]["inline_keyboard"]
    assert [one["text"] for one in rows[0]] == ["16:9", "9:16"]
    world.telegram.press(USER, found[0], rows[0][1]["callback_data"])
    await until(lambda: any("describe" in one for one in world.texts()), "the question")
    await world.say("a lighthouse at night")
    _, data = await until(lambda: world.button("make|"), "the price")
    await world.press("make|")
    await ended(world, data.split("|")[1], "delivered")
    [task] = world.kie.tasks.values()
    assert task.param["input"]["aspect_ratio"] == "portrait"
    [video] = [one for one in world.telegram.chat(USER).messages if one.get("video")]
    assert video["video"]["file_id"].endswith(".mp4")
    assert await balance(world) == (1100, 0)


async def test_a_video_that_telegram_cannot_fetch_is_uploaded(world: World) -> None:
    await world.start("one", MODELS='{"sora-2-text-to-video": 900}')
    world.telegram.refusals += [(400, "Bad Request: failed to get HTTP URL content")]
    await ended(world, await world.order("a lighthouse"), "delivered")
    [video] = [one for one in world.telegram.chat(USER).messages if one.get("video")]
    assert world.telegram.files[video["video"]["file_id"].removeprefix("file/")].startswith(b"\x00\x00\x00\x18ftyp")


async def test_an_order_for_a_model_that_has_left_the_catalogue_is_refunded(world: World, tmp_path: Path) -> None:
    own = tmp_path / "models.yaml"
    own.write_text(OWN)
    one = await world.start("one", MODELS='{"my/painter": 300}', MODELS_FILE=str(own))
    world.kie.refusals = [(429, "not now")]
    job_id = await world.order("a lighthouse")
    await until(lambda: one.lines("KIE_ACCOUNT"), "a try")
    await asyncio.to_thread(one.stop)
    world.kie.refusals = []
    await world.start("two", first=True)
    await ended(world, job_id, "failed")
    await until(lambda: any("not available" in text for text in world.texts()), "the news")
    assert await balance(world) == (2000, 0)
    assert world.kie.tasks == {}
